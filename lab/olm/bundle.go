//go:build linux

package olm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// A Bundle is a bundle of format registry+v1.
type Bundle struct {
	csv     *unstructured.Unstructured
	version clusterServiceVersion
	objects []*unstructured.Unstructured
}

// clusterServiceVersion is what OLM acts by.
type clusterServiceVersion struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Replaces     string `json:"replaces"`
		InstallModes []struct {
			Type      string `json:"type"`
			Supported bool   `json:"supported"`
		} `json:"installModes"`
		Install struct {
			Spec struct {
				ClusterPermissions []permission `json:"clusterPermissions"`
				Permissions        []permission `json:"permissions"`
				Deployments        []struct {
					Name  string                `json:"name"`
					Label map[string]string     `json:"label"`
					Spec  appsv1.DeploymentSpec `json:"spec"`
				} `json:"deployments"`
			} `json:"spec"`
		} `json:"install"`
	} `json:"spec"`
}

type permission struct {
	ServiceAccountName string              `json:"serviceAccountName"`
	Rules              []rbacv1.PolicyRule `json:"rules"`
}

// Name is the name of the ClusterServiceVersion.
func (b *Bundle) Name() string { return b.version.Metadata.Name }

// supported are the kinds that the catalog operator of OLM v0 creates beside a ClusterServiceVersion
// (pkg/controller/operators/catalog: step.go, supportedresources.go).
func supported() []string {
	return []string{
		"CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "Service", "ServiceAccount", "Role", "RoleBinding", "Secret", "ConfigMap",
		"PrometheusRule", "ServiceMonitor", "PodDisruptionBudget", "PriorityClass", "VerticalPodAutoscaler", "ConsoleYAMLSample",
		"ConsoleQuickStart", "ConsoleCLIDownload", "ConsoleLink", "ConsolePlugin", "NetworkPolicy",
	}
}

// ReadBundle reads a bundle's image.
func (i Images) ReadBundle(ctx context.Context, image string) (*Bundle, error) {
	files, labels, err := i.read(ctx, image)
	if err != nil {
		return nil, err
	}
	const prefix = "operators.operatorframework.io.bundle."
	if labels[prefix+"mediatype.v1"] != "registry+v1" {
		return nil, fmt.Errorf("image %s is no bundle: its labels are %v", image, labels)
	}
	b := &Bundle{}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasPrefix(file, labels[prefix+"manifests.v1"]) {
			continue
		}
		if err := b.add(files[file]); err != nil {
			return nil, fmt.Errorf("reading %s of image %s: %w", file, image, err)
		}
	}
	if b.csv == nil {
		return nil, fmt.Errorf("image %s has no ClusterServiceVersion", image)
	}
	return b, nil
}

func (b *Bundle) add(text []byte) error {
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &o.Object); err != nil {
		return err
	}
	switch kind := o.GetKind(); {
	case kind == "ClusterServiceVersion" && b.csv == nil:
		b.csv = o
		return runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &b.version)
	case !slices.Contains(supported(), kind):
		return fmt.Errorf("OLM does not create objects of kind %s", kind)
	}
	b.objects = append(b.objects, o)
	return nil
}

// catalogEntry is what is read of a file-based catalog.
type catalogEntry struct {
	Schema         string `json:"schema"`
	Name           string `json:"name"`
	Package        string `json:"package"`
	DefaultChannel string `json:"defaultChannel"`
	Image          string `json:"image"`
	Entries        []struct {
		Name     string   `json:"name"`
		Replaces string   `json:"replaces"`
		Skips    []string `json:"skips"`
	} `json:"entries"`
}

// Newest is the image of the newest bundle in a channel of a package; in the default channel if the channel is empty.
func (i Images) Newest(ctx context.Context, catalog, pkg, channel string) (image string, err error) {
	files, labels, err := i.read(ctx, catalog)
	if err != nil {
		return "", err
	}
	folder := strings.TrimPrefix(labels["operators.operatorframework.io.index.configs.v1"], "/")
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(files[folder+"/"+pkg+"/catalog.yaml"]), 4096)
	var entries []catalogEntry
	for {
		var e catalogEntry
		if err := documents.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return "", fmt.Errorf("reading catalog %s: %w", catalog, err)
		}
		entries = append(entries, e)
		if e.Schema == "olm.package" && e.Name == pkg && channel == "" {
			channel = e.DefaultChannel
		}
	}
	former, all := map[string]bool{}, []string{}
	for _, e := range entries {
		if e.Schema != "olm.channel" || e.Package != pkg || e.Name != channel {
			continue
		}
		for _, version := range e.Entries {
			all, former[version.Replaces] = append(all, version.Name), true
			for _, skipped := range version.Skips {
				former[skipped] = true
			}
		}
	}
	for _, e := range entries {
		if e.Schema == "olm.bundle" && slices.Contains(all, e.Name) && !former[e.Name] {
			return e.Image, nil
		}
	}
	return "", fmt.Errorf("catalog %s has no package %s with channel %s", catalog, pkg, channel)
}
