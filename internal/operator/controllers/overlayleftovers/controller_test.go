package overlayleftovers

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
)

// Annotations as OVN-Kubernetes' cluster manager (commit 8871cd9ce) wrote them to Windows Nodes when the hybrid overlay was on, off, and on again.
const (
	subnetKey  = "k8s.ovn.org/hybrid-overlay-node-subnet"
	linuxKey   = "k8s.ovn.org/node-subnets"
	idKey      = "k8s.ovn.org/node-id"
	transitKey = "k8s.ovn.org/node-transit-switch-port-ifaddr"
	macKey     = "k8s.ovn.org/hybrid-overlay-distributed-router-gateway-mac"
)

func onAgain() map[string]string {
	return map[string]string{subnetKey: "10.132.0.0/24", idKey: "4", linuxKey: `{"default":["10.130.0.0/23"]}`, transitKey: `{"ipv4":"100.88.0.4/16"}`, "other": "x"}
}

// registeredWhileOff returns the annotations of a Node that registered while the overlay was off.
func registeredWhileOff() map[string]string {
	return map[string]string{idKey: "6", linuxKey: `{"default":["10.128.2.0/23"]}`, transitKey: `{"ipv4":"100.88.0.6/16"}`}
}

func node(name, os string, annotations map[string]string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name), Labels: map[string]string{corev1.LabelOSStable: os}, Annotations: annotations,
	}}
	n.Status.NodeInfo.OperatingSystem = os
	return n
}

// linux returns a Linux Node with or without the hybrid overlay.
func linux(hybrid bool) *corev1.Node {
	annotations := map[string]string{linuxKey: `{"default":["10.128.0.0/23"]}`, idKey: "2", transitKey: `{"ipv4":"100.88.0.2/16"}`}
	if hybrid {
		annotations[macKey] = "0a:58:0a:80:00:03"
	}
	return node("linux-1", "linux", annotations)
}

// onOpenShift returns OpenShift's objects with a hybridOverlayConfig.
func onOpenShift(t *testing.T, hybridOverlay string) []client.Object {
	t.Helper()
	var all []client.Object
	for _, text := range []string{
		"{apiVersion: config.openshift.io/v1, kind: Infrastructure, metadata: {name: cluster}, status: {platform: AWS}}",
		"{apiVersion: config.openshift.io/v1, kind: Network, metadata: {name: cluster}, status: {networkType: OVNKubernetes}}",
		"{apiVersion: operator.openshift.io/v1, kind: Network, metadata: {name: cluster}, spec: {defaultNetwork: {ovnKubernetesConfig: {hybridOverlayConfig: " +
			hybridOverlay + "}}}}",
	} {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			t.Fatal(err)
		}
		all = append(all, object)
	}
	return all
}

const isOn = "{hybridClusterNetwork: [{cidr: 10.132.0.0/14, hostPrefix: 23}]}"

func configured(network v1alpha1.NetworkSpec) *v1alpha1.WindowsConfig {
	return &v1alpha1.WindowsConfig{ObjectMeta: metav1.ObjectMeta{Name: api.WindowsConfigName}, Spec: v1alpha1.WindowsConfigSpec{Network: network}}
}

// place is a cluster with the controller.
type place struct {
	t *testing.T
	client.Client
	controller *Controller
	events     *controllertest.Recorder
}

func open(t *testing.T, intercept interceptor.Funcs, objects ...client.Object) place {
	c := fake.NewClientBuilder().WithScheme(controllertest.Scheme(t)).WithObjects(objects...).WithInterceptorFuncs(intercept).Build()
	p := place{t: t, Client: c, events: &controllertest.Recorder{}}
	p.controller = New(Options{Client: c, Live: c, Events: kube.NewEvents(p.events)})
	return p
}

func (p place) reconcile(name string) time.Duration {
	p.t.Helper()
	result, err := p.controller.Reconcile(p.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	if err != nil {
		p.t.Fatal(err)
	}
	return result.RequeueAfter
}

func (p place) annotations(name string) []string {
	p.t.Helper()
	var n corev1.Node
	if err := p.Get(p.t.Context(), types.NamespacedName{Name: name}, &n); err != nil {
		p.t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(n.Annotations))
}

// write writes annotations as OVN-Kubernetes does.
func (p place) write(name string, annotations map[string]string) {
	p.t.Helper()
	var n corev1.Node
	if err := p.Get(p.t.Context(), types.NamespacedName{Name: name}, &n); err != nil {
		p.t.Fatal(err)
	}
	n.Annotations = annotations
	if err := p.Update(p.t.Context(), &n); err != nil {
		p.t.Fatal(err)
	}
}

func TestLeftoversAreRemovedOnlyWhereHarmful(t *testing.T) {
	ovn := v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkOVNHybridOverlay}
	labelledWindows, runsWindows := node("win-1", "linux", onAgain()), node("win-1", "linux", onAgain())
	labelledWindows.Labels[corev1.LabelOSStable], runsWindows.Status.NodeInfo.OperatingSystem = "windows", "windows"
	with := func(subnet string) *corev1.Node {
		n := node("win-1", "windows", onAgain())
		n.Annotations[subnetKey] = subnet
		return n
	}
	for name, test := range map[string]struct {
		node    *corev1.Node
		objects []client.Object
		removed bool
	}{
		"OpenShift, enabled again":                   {node("win-1", "windows", onAgain()), append(onOpenShift(t, isOn), linux(true)), true},
		"Kubernetes, started without the flag first": {node("win-1", "windows", onAgain()), []client.Object{configured(ovn), linux(true)}, true},
		"disabled": {node("win-1", "windows", onAgain()), append(onOpenShift(t, "null"), linux(true)), false},
		"enabled, not yet applied to Linux nodes": {node("win-1", "windows", onAgain()), append(onOpenShift(t, isOn), linux(false)), false},
		"enabled without a range":                 {node("win-1", "windows", onAgain()), append(onOpenShift(t, "{}"), linux(true)), false},
		"no subnet yet":                           {node("win-1", "windows", registeredWhileOff()), append(onOpenShift(t, isOn), linux(true)), false},
		"subnet of another range":                 {with("10.160.0.0/24"), append(onOpenShift(t, isOn), linux(true)), false},
		"invalid subnet":                          {with("abc"), append(onOpenShift(t, isOn), linux(true)), false},
		"Linux node":                              {node("win-1", "linux", onAgain()), append(onOpenShift(t, isOn), linux(true)), false},
		"Windows label only":                      {labelledWindows, append(onOpenShift(t, isOn), linux(true)), false},
		"Windows status only":                     {runsWindows, append(onOpenShift(t, isOn), linux(true)), false},
		"another provider": {node("win-1", "windows", onAgain()),
			[]client.Object{configured(v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkFlannel}), linux(true)}, false},
		"no provider": {node("win-1", "windows", onAgain()), []client.Object{linux(true)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := open(t, interceptor.Funcs{}, append(test.objects, test.node)...)
			before := p.annotations("win-1")
			p.reconcile("win-1")
			want := before
			if test.removed {
				want = []string{subnetKey, "other"}
			}
			if got := p.annotations("win-1"); !slices.Equal(got, want) {
				t.Errorf("annotations are %q, want %q", got, want)
			}
			if reported := len(p.events.Events); reported != map[bool]int{true: 1}[test.removed] {
				t.Errorf("events are %q", p.events.Events)
			}
			if test.removed && !strings.Contains(p.events.Events[0], "Normal OverlayLeftoversRemoved *v1.Node win-1 Removed annotations "+linuxKey+", "+idKey+", "+transitKey) {
				t.Errorf("the event is %q", p.events.Events[0])
			}
			if got := p.annotations("linux-1"); !slices.Contains(got, linuxKey) {
				t.Errorf("annotations of the Linux node are %q", got)
			}
		})
	}
}

// TestRewrittenAnnotationsAreReported: without no-hostsubnet-nodes, OVN-Kubernetes keeps writing the annotations.
func TestRewrittenAnnotationsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, interceptor.Funcs{}, append(onOpenShift(t, isOn), linux(true), node("win-1", "windows", onAgain()))...)
		removed := 0
		for end := time.Now().Add(3*time.Hour - time.Minute); time.Now().Before(end); time.Sleep(time.Minute) {
			p.reconcile("win-1")
			if !slices.Contains(p.annotations("win-1"), linuxKey) {
				removed++
				p.write("win-1", onAgain())
			}
		}
		reported := 0
		for _, e := range p.events.Events {
			if strings.Contains(e, "Warning NodeTakenForLinux *v1.Node win-1") && strings.Contains(e, "no-hostsubnet-nodes") {
				reported++
			}
		}
		if removed != 9 || reported != 3 || len(p.events.Events) != 12 {
			t.Errorf("in three hours: %d removals and %d reports, want 9 and 3: %q", removed, reported, p.events.Events)
		}
	})
}

// TestMissingSubnetIsReportedAfterDelay: OVN-Kubernetes assigns a subnet at once or never.
func TestMissingSubnetIsReportedAfterDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, interceptor.Funcs{}, configured(v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkOVNHybridOverlay}), linux(true),
			node("win-1", "windows", registeredWhileOff()))
		later := p.reconcile("win-1")
		if later != subnetGrace || len(p.events.Events) != 0 {
			t.Fatalf("next check after %s, events %q", later, p.events.Events)
		}
		time.Sleep(later)
		p.reconcile("win-1")
		p.reconcile("win-1")
		if len(p.events.Events) != 1 || !strings.Contains(p.events.Events[0], "NodeTakenForLinux") {
			t.Errorf("events are %q", p.events.Events)
		}
	})
}

// TestChangedNodeIsNotPatched: a Node that has changed since, or another one of the same name, is checked again first.
func TestChangedNodeIsNotPatched(t *testing.T) {
	conflicts := 0
	p := open(t, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
		if conflicts++; conflicts > 1 {
			return c.Patch(ctx, object, patch, options...)
		}
		data, err := patch.Data(object)
		if err != nil || !strings.Contains(string(data), `"resourceVersion":`) {
			t.Errorf("the patch is %s (%v)", data, err)
		}
		return apierrors.NewConflict(corev1.Resource("nodes"), object.GetName(), nil)
	}}, append(onOpenShift(t, isOn), linux(true), node("win-1", "windows", onAgain()))...)
	if later := p.reconcile("win-1"); later != time.Second || len(p.events.Events) != 0 {
		t.Errorf("after a conflict: next check after %s, events %q", later, p.events.Events)
	}
	p.reconcile("win-1")
	if got := p.annotations("win-1"); slices.Contains(got, linuxKey) || len(p.controller.nodes) != 1 {
		t.Errorf("annotations are %q, known are %v", got, p.controller.nodes)
	}
	if err := p.Delete(t.Context(), node("win-1", "windows", nil)); err != nil {
		t.Fatal(err)
	}
	p.reconcile("win-1")
	if len(p.controller.nodes)+len(p.controller.names) != 0 {
		t.Errorf("a deleted Node is still known: %v", p.controller.nodes)
	}
}
