//go:build linux

package olm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/lab"
)

// A catalogBundle is the entry of a bundle in a catalog.
type catalogBundle struct {
	Schema     string `json:"schema"`
	Name       string `json:"name"`
	Package    string `json:"package"`
	Image      string `json:"image"`
	Properties []struct {
		Type  string `json:"type"`
		Value any    `json:"value"`
	} `json:"properties"`
	RelatedImages []struct {
		Name  string `json:"name"`
		Image string `json:"image"`
	} `json:"relatedImages"`
}

// checkCatalog validates the catalog with opm, and compares its entry of the bundle with the one that opm renders from the
// bundle's image.
func (p *harness) checkCatalog() {
	ctx := p.t.Context()
	opm, err := lab.OPM(ctx, os.Stderr)
	must(p.t, err)
	folder := filepath.Join(p.out, "0.1.0", "catalog")
	if out, err := exec.CommandContext(ctx, opm, "validate", folder).CombinedOutput(); err != nil {
		p.t.Errorf("opm validate: %v: %s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(folder, "catalog.yaml"))
	must(p.t, err)
	var want catalogBundle
	for document := range bytes.SplitSeq(text, []byte("---\n")) {
		var b catalogBundle
		must(p.t, yaml.Unmarshal(document, &b))
		if b.Schema == "olm.bundle" {
			want = b
		}
	}
	var failure bytes.Buffer
	render := exec.CommandContext(ctx, opm, "render", want.Image, "--use-http", "--output", "json", "--migrate-level", "bundle-object-to-csv-metadata")
	render.Stderr = &failure
	rendered, err := render.Output()
	if err != nil {
		p.t.Fatalf("opm render: %v: %s", err, failure.Bytes())
	}
	var got catalogBundle
	must(p.t, json.Unmarshal(rendered, &got))
	if got.Name != want.Name || got.Package != want.Package || got.Image != want.Image {
		p.t.Errorf("opm rendered bundle %s of image %s, package %s; want %s of image %s, package %s", got.Name, got.Image, got.Package, want.Name, want.Image, want.Package)
	}
	p.expectSame("properties", got.Properties, want.Properties)
	p.expectSame("relatedImages", got.RelatedImages, want.RelatedImages)
}

// expectSame compares lists regardless of their order.
func (p *harness) expectSame(what string, got, want any) {
	p.t.Helper()
	count := func(list any) map[string]int {
		all := map[string]int{}
		for v := reflect.ValueOf(list); v.Len() > 0; v = v.Slice(1, v.Len()) {
			text, err := json.Marshal(v.Index(0).Interface())
			must(p.t, err)
			all[string(text)]++
		}
		return all
	}
	if g, w := count(got), count(want); !reflect.DeepEqual(g, w) {
		p.t.Errorf("opm rendered %s\n%v\nwant those of the catalog\n%v", what, g, w)
	}
}

// expectCatalog waits until OLM serves only the catalog with a tag, and has connected to it. Until then, OLM uses the previous
// content of the catalog.
func (p *harness) expectCatalog(tag string) {
	p.t.Helper()
	p.eventually("OLM is connected to catalog "+tag, func(ctx context.Context) string {
		pod, err := p.catalogPod(ctx, tag)
		if err != nil {
			return err.Error()
		}
		began := pod.Status.ContainerStatuses[0].State.Running.StartedAt.Time
		state, since, err := p.connection(ctx)
		if err != nil || state != "READY" || since.Before(began) {
			return fmt.Sprintf("the pod has been running since %s, the connection has been %s since %s (error %v)", began, state, since, err)
		}
		return ""
	})
}

// connection returns the state of OLM's connection to the catalog.
func (p *harness) connection(ctx context.Context) (state string, since time.Time, err error) {
	source := &unstructured.Unstructured{}
	source.SetAPIVersion("operators.coreos.com/v1alpha1")
	source.SetKind("CatalogSource")
	if err := p.Client.Get(ctx, types.NamespacedName{Namespace: catalogNamespace, Name: operator}, source); err != nil {
		return "", since, err
	}
	got, _, err := unstructured.NestedStringMap(source.Object, "status", "connectionState")
	if err != nil {
		return "", since, err
	}
	since, err = time.Parse(time.RFC3339, got["lastConnect"])
	return got["lastObservedState"], since, err
}

// catalogPod returns the pod that serves the catalog. It returns an error unless there is exactly one, it is Ready, and its
// image has the tag.
func (p *harness) catalogPod(ctx context.Context, tag string) (pod corev1.Pod, err error) {
	pods, err := p.Clients.CoreV1().Pods(catalogNamespace).List(ctx, metav1.ListOptions{LabelSelector: "olm.catalogSource=" + operator})
	if err != nil {
		return pod, err
	}
	if len(pods.Items) != 1 {
		return pod, fmt.Errorf("got %d pods of the catalog, want 1", len(pods.Items))
	}
	pod = pods.Items[0]
	for _, c := range pod.Spec.InitContainers {
		if c.Name == "extract-content" && !strings.HasSuffix(c.Image, ":"+tag) {
			return pod, fmt.Errorf("pod %s has image %s, want tag %s", pod.Name, c.Image, tag)
		}
	}
	if len(pod.Status.ContainerStatuses) != 1 || !pod.Status.ContainerStatuses[0].Ready || pod.Status.ContainerStatuses[0].State.Running == nil {
		return pod, fmt.Errorf("pod %s is not Ready", pod.Name)
	}
	return pod, nil
}

// rebootNode reboots the Linux node on which OLM, the catalog and the operator run. Afterwards the same pod must serve the
// catalog, although its containers have left files in its folders.
func (p *harness) rebootNode() {
	ctx := p.t.Context()
	p.expectCatalog(channelTag)
	before, err := p.catalogPod(ctx, channelTag)
	must(p.t, err)
	p.Pod.Node.PowerOff()
	began := time.Now()
	must(p.t, p.Pod.Node.Boot(ctx))
	p.eventually("the same pod serves the catalog", func(ctx context.Context) string {
		pod, err := p.catalogPod(ctx, channelTag)
		if err != nil {
			return err.Error()
		}
		if pod.UID != before.UID {
			p.t.Fatalf("pod %s was replaced by %s", before.Name, pod.Name)
		}
		if s := pod.Status.ContainerStatuses[0]; s.RestartCount == 0 || s.State.Running == nil || s.State.Running.StartedAt.Time.Before(began.Truncate(time.Second)) {
			return fmt.Sprintf("its container has not restarted: %+v", s)
		}
		return ""
	})
	p.expectCatalog(channelTag)
	if _, err := p.Pod.WaitUntilReady(ctx); err != nil {
		p.t.Fatal(err)
	}
	p.expectReady()
}
