//go:build linux

package olm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/cluster/helm"
	"github.com/windows-machine-config/wmco/lab/cluster/manifest"
)

// OLM's namespaces, as on OpenShift.
const (
	olmNamespace      = "openshift-operator-lifecycle-manager"
	catalogNamespace  = "openshift-marketplace"
	operatorNamespace = "openshift-operators"
)

// values returns the values for OLM's chart.
func values() string {
	return fmt.Sprintf(`installType: ocp # without the catalog of operatorhub.io
namespace: %[1]s
catalog_namespace: %[2]s
operator_namespace: %[3]s
olm: {image: {ref: %[4]s, pullPolicy: IfNotPresent}}
catalog: {commandArgs: "", opmImageArgs: --opmImage=%[5]s, image: {ref: %[4]s, pullPolicy: IfNotPresent}}
package: {image: {ref: %[4]s}}
`, olmNamespace, catalogNamespace, operatorNamespace, lab.OLMImage, lab.OPMImage)
}

// installOLM installs the Operator Lifecycle Manager with its own chart, on a node that runs pods.
func (p *harness) installOLM(ctx context.Context) error {
	for _, step := range []func() error{
		func() error { return p.Pod.Node.ConnectPods(ctx) },
		func() error { return p.StartDNS(ctx) },
		func() error { return p.Lab.AddOLM(ctx, p.Pod.Registry()) },
		func() error {
			return p.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: catalogNamespace}})
		},
	} {
		if err := step(); err != nil {
			return err
		}
	}
	objects, err := p.renderOLM(ctx)
	if err != nil {
		return err
	}
	isKind := func(o *unstructured.Unstructured) bool { return o.GetKind() == "CustomResourceDefinition" }
	kinds := slices.DeleteFunc(slices.Clone(objects), func(o *unstructured.Unstructured) bool { return !isKind(o) })
	if err := manifest.ApplyObjects(ctx, p.config(), kinds); err != nil {
		return err
	}
	if err := manifest.ApplyObjects(ctx, p.config(), slices.DeleteFunc(objects, isKind)); err != nil {
		return err
	}
	return p.waitForOLM(ctx)
}

func (p *harness) waitForOLM(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lab.Timeout(waitTimeout))
	defer cancel()
	for {
		list, err := p.Clients.AppsV1().Deployments(olmNamespace).List(ctx, metav1.ListOptions{})
		isReady := func(d appsv1.Deployment) bool { return d.Status.ReadyReplicas > 0 }
		if err == nil && len(list.Items) == 2 && isReady(list.Items[0]) && isReady(list.Items[1]) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for OLM: %w: %w\n%s", ctx.Err(), err, p.diagnoseOLM(context.WithoutCancel(ctx)))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// renderOLM returns the objects of OLM's chart, except for the package server, which only consoles need.
func (p *harness) renderOLM(ctx context.Context) ([]*unstructured.Unstructured, error) {
	dir := filepath.Join(p.out, "helm")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	h, err := helm.New(ctx, root, dir, os.Stderr)
	if err != nil {
		return nil, err
	}
	chart, err := lab.OLMChart(ctx)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "values.yaml")
	if err := os.WriteFile(file, []byte(values()), 0o600); err != nil {
		return nil, err
	}
	text, err := h.Run(ctx, "template", "olm", chart, "--include-crds", "--values", file)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 1<<20); ; {
		o := &unstructured.Unstructured{}
		if err := documents.Decode(&o.Object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading OLM's chart: %w", err)
		}
		if len(o.Object) > 0 && o.GetKind() != "ClusterServiceVersion" {
			objects = append(objects, o)
		}
	}
}

// diagnoseOLM returns the state of OLM's objects and the end of its logs.
func (p *harness) diagnoseOLM(ctx context.Context) string {
	var text strings.Builder
	for _, kind := range []string{"CatalogSource", "Subscription", "InstallPlan", "ClusterServiceVersion"} {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("operators.coreos.com/v1alpha1")
		list.SetKind(kind + "List")
		if err := p.Client.List(ctx, list); err != nil {
			fmt.Fprintln(&text, err)
		}
		for _, o := range list.Items {
			status, err := json.Marshal(o.Object["status"])
			fmt.Fprintf(&text, "%s %s/%s (%v): %s\n", kind, o.GetNamespace(), o.GetName(), err, status[:min(len(status), 3000)])
		}
	}
	pods, err := p.Clients.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return text.String() + err.Error()
	}
	for _, pod := range pods.Items {
		fmt.Fprintf(&text, "pod %s/%s: %s\n", pod.Namespace, pod.Name, pod.Status.Phase)
		for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			fmt.Fprintf(&text, "  %s: %+v, %d restarts\n", c.Name, c.State, c.RestartCount)
		}
		if pod.Namespace == olmNamespace {
			log, err := p.Clients.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{TailLines: new(int64(30))}).DoRaw(ctx)
			fmt.Fprintf(&text, "%s (%v)\n", log, err)
		}
	}
	return text.String()
}
