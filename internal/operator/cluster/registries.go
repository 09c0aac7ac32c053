package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
)

// OpenShift's kinds for image settings and mirror sets.
const (
	imageConfig = "Image"
	digestSet   = "ImageDigestMirrorSet"
	tagSet      = "ImageTagMirrorSet"
)

// readMirrors reads OpenShift's mirror sets, or those of WindowsConfig if OpenShift has none.
func readMirrors(ctx context.Context, r client.Reader, config v1alpha1.WindowsConfigSpec, s *desired.Settings) error {
	for _, kind := range []struct{ kind, field string }{{digestSet, "imageDigestMirrors"}, {tagSet, "imageTagMirrors"}} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: openshiftConfig, Version: "v1", Kind: kind.kind + "List"})
		err := r.List(ctx, list)
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("listing %ss: %w", kind.kind, err)
		}
		for i := range list.Items {
			set, err := mirrorSet(&list.Items[i], kind.kind, kind.field)
			if err != nil {
				return err
			}
			s.Registries.Sets = append(s.Registries.Sets, set)
		}
	}
	if len(s.Registries.Sets) == 0 && len(config.Registries.Mirrors) > 0 {
		s.Registries.Sets = []mirrors.Set{configuredMirrors(config.Registries.Mirrors)}
	}
	return nil
}

// mirrorSet converts one mirror set (config.openshift.io/v1).
func mirrorSet(object *unstructured.Unstructured, kind, field string) (mirrors.Set, error) {
	type entry struct {
		Source  string         `json:"source"`
		Mirrors []string       `json:"mirrors"`
		Policy  mirrors.Policy `json:"mirrorSourcePolicy"`
	}
	var current struct {
		Spec struct {
			Digests []entry `json:"imageDigestMirrors"`
			Tags    []entry `json:"imageTagMirrors"`
		} `json:"spec"`
	}
	if err := decode(object, &current); err != nil {
		return mirrors.Set{}, err
	}
	entries := current.Spec.Digests
	if kind == tagSet {
		entries = current.Spec.Tags
	}
	out := mirrors.Set{Kind: kind, Name: object.GetName(), Field: "spec." + field}
	for _, e := range entries {
		entry := mirrors.Entry{Source: e.Source, Policy: e.Policy, For: mirrors.Digests}
		if kind == tagSet {
			entry.For = mirrors.Tags
		}
		for _, location := range e.Mirrors {
			entry.Mirrors = append(entry.Mirrors, mirrors.Mirror{Location: location})
		}
		out.Entries = append(out.Entries, entry)
	}
	return out, nil
}

func configuredMirrors(list []v1alpha1.RegistryMirrors) mirrors.Set {
	out := mirrors.Set{Kind: "WindowsConfig", Name: api.WindowsConfigName, Field: "spec.registries.mirrors"}
	for _, e := range list {
		entry := mirrors.Entry{Source: e.Source, Policy: mirrors.Policy(e.MirrorSourcePolicy)}
		if e.PullBy == v1alpha1.PullByDigest {
			entry.For = mirrors.Digests
		}
		for _, m := range e.Mirrors {
			entry.Mirrors = append(entry.Mirrors, mirrors.Mirror{Location: m.Location, Insecure: m.Insecure, CA: m.CABundle})
		}
		out.Entries = append(out.Entries, entry)
	}
	return out
}

// readRegistrySources reads OpenShift's allowed, blocked and insecure registries, or WindowsConfig's if the cluster has no such object. The
// authorities of additionalTrustedCA come from ControllerConfig.
func readRegistrySources(ctx context.Context, r client.Reader, config v1alpha1.WindowsConfigSpec, s *desired.Settings) error {
	add := func(kind, name, field string, rule mirrors.Rule, scopes []string) {
		if len(scopes) > 0 {
			s.Registries.Access = append(s.Registries.Access, mirrors.Access{Kind: kind, Name: name, Field: field, Rule: rule, Scopes: scopes})
		}
	}
	image, err := readCluster(ctx, r, openshiftConfig, imageConfig, "cluster")
	if err != nil {
		return err
	}
	if image == nil {
		const kind, field = "WindowsConfig", "spec.registries."
		add(kind, api.WindowsConfigName, field+"blockedRegistries", mirrors.Blocked, config.Registries.BlockedRegistries)
		add(kind, api.WindowsConfigName, field+"insecureRegistries", mirrors.Insecure, config.Registries.InsecureRegistries)
		return nil
	}
	var current struct {
		Spec struct {
			Sources struct {
				Allowed  []string `json:"allowedRegistries"`
				Blocked  []string `json:"blockedRegistries"`
				Insecure []string `json:"insecureRegistries"`
			} `json:"registrySources"`
		} `json:"spec"`
	}
	if err := decode(image, &current); err != nil {
		return err
	}
	const field = "spec.registrySources."
	add(imageConfig, image.GetName(), field+"allowedRegistries", mirrors.Allowed, current.Spec.Sources.Allowed)
	add(imageConfig, image.GetName(), field+"blockedRegistries", mirrors.Rejected, current.Spec.Sources.Blocked)
	add(imageConfig, image.GetName(), field+"insecureRegistries", mirrors.Insecure, current.Spec.Sources.Insecure)
	return nil
}

// OpenShiftPullSecret returns the name of OpenShift's cluster pull secret. On other clusters, its namespace does not exist or belongs to another
// owner, and the operator may not read it.
func OpenShiftPullSecret() types.NamespacedName {
	return types.NamespacedName{Namespace: "openshift-config", Name: api.PullSecret}
}

// readPullSecret reads the first existing pull secret: OpenShift's, or the one that an administrator creates in the operator's namespace on other
// clusters.
func readPullSecret(ctx context.Context, r client.Reader, namespace string, s *desired.Settings) error {
	for _, name := range []types.NamespacedName{OpenShiftPullSecret(), {Namespace: namespace, Name: api.PullSecret}} {
		var secret corev1.Secret
		err := r.Get(ctx, name, &secret)
		if apierrors.IsNotFound(err) {
			continue
		}
		if apierrors.IsForbidden(err) && name == OpenShiftPullSecret() {
			openshift, unknown := readCluster(ctx, r, openshiftConfig, "Infrastructure", "cluster")
			if openshift == nil && unknown == nil {
				continue
			}
			return fmt.Errorf("reading Secret %s: %w; on OpenShift, also apply deploy/openshift", name, err)
		}
		if err != nil {
			return fmt.Errorf("reading Secret %s: %w", name, err)
		}
		s.Registries.PullSecret = mirrors.PullSecret{Name: name.String(), DockerConfigJSON: secret.Data[corev1.DockerConfigJsonKey]}
		return nil
	}
	return nil
}
