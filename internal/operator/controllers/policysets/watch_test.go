package policysets

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/networkpolicy"
)

// whole returns a pod with everything that affects policies, and more.
func whole() *corev1.Pod {
	p := newPod("shop", "web-1", "win-1", "10.244.1.2")
	p.ResourceVersion = "1"
	p.Annotations = map[string]string{"x": strings.Repeat("x", 1<<16), corev1.MirrorPodAnnotationKey: "0123456789abcdef0123456789abcdef"}
	always := corev1.ContainerRestartPolicyAlways
	http := corev1.ContainerPort{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP, HostPort: 80}
	p.Spec.Containers = []corev1.Container{{Name: "a", Image: "image", Ports: []corev1.ContainerPort{{ContainerPort: 1}, http}}, {Name: "b"}}
	p.Spec.InitContainers = []corev1.Container{{Name: "c", RestartPolicy: &always, Ports: []corev1.ContainerPort{{Name: "side", ContainerPort: 9090}}}}
	p.Status.PodIPs = []corev1.PodIP{{IP: "10.244.1.2"}, {IP: "fd00::2"}}
	p.Status.Message = strings.Repeat("x", 1<<16)
	return p
}

func transform(t *testing.T, o client.Object) client.Object {
	t.Helper()
	for _, i := range Informers("ns") {
		if reflect.TypeOf(i.Object) == reflect.TypeOf(o) {
			kept, err := i.Transform(o)
			if err != nil {
				t.Fatal(err)
			}
			return kept.(client.Object)
		}
	}
	t.Fatalf("%T is not cached", o)
	return nil
}

// TestCachedObjectsCompileLikeWholeOnes: what is kept of them suffices, and is little.
func TestCachedObjectsCompileLikeWholeOnes(t *testing.T) {
	policy := newPolicy("shop", "web", "web-1")
	policy.Annotations = map[string]string{"x": strings.Repeat("x", 1<<16)}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"a": "b"}, Annotations: policy.Annotations}}
	c := networkpolicy.Cluster{
		Policies: []*networkingv1.NetworkPolicy{policy}, Namespaces: []*corev1.Namespace{namespace}, Pods: []*corev1.Pod{whole()},
		Nodes: map[string]networkpolicy.Node{"win-1": {Windows: true}},
	}
	want, _ := networkpolicy.Compile(c)
	if len(want) != 1 || len(want[0].Set.Pods) != 1 || want[0].Set.Pods[0].UID != "0123456789abcdef0123456789abcdef" {
		t.Fatalf("the whole objects compile to %+v", want)
	}
	c.Policies[0] = transform(t, policy).(*networkingv1.NetworkPolicy)
	c.Namespaces[0] = transform(t, namespace).(*corev1.Namespace)
	c.Pods[0] = transform(t, whole()).(*corev1.Pod)
	if got, _ := networkpolicy.Compile(c); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, o := range []client.Object{c.Policies[0], c.Namespaces[0], c.Pods[0]} {
		if size := kube.Memory(o); size > 6<<10 || kube.IsCut(o) {
			t.Errorf("%T takes %d bytes", o, size)
		}
		if again := transform(t, o.DeepCopyObject().(client.Object)); !reflect.DeepEqual(again, o) {
			t.Errorf("keeping %T again changes it", o)
		}
	}
	t.Logf("a pod takes %d bytes", kube.Memory(c.Pods[0]))
}

// TestUpdatesThatChangeNothingAreIgnored: kubelets write the status of pods all the time.
func TestUpdatesThatChangeNothingAreIgnored(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		want   int
	}{
		"resync":    {func(*corev1.Pod) {}, 0},
		"condition": {func(p *corev1.Pod) { p.ResourceVersion, p.Status.Conditions = "2", make([]corev1.PodCondition, 1) }, 0},
		"image":     {func(p *corev1.Pod) { p.ResourceVersion, p.Spec.Containers[0].Image = "2", "other" }, 0},
		"label":     {func(p *corev1.Pod) { p.ResourceVersion, p.Labels = "2", map[string]string{"app": "x"} }, 1},
		"address":   {func(p *corev1.Pod) { p.ResourceVersion, p.Status.PodIP = "2", "10.244.1.3" }, 1},
		"port":      {func(p *corev1.Pod) { p.ResourceVersion, p.Spec.Containers[0].Ports[1].ContainerPort = "2", 81 }, 1},
		"phase":     {func(p *corev1.Pod) { p.ResourceVersion, p.Status.Phase = "2", corev1.PodFailed }, 1},
	} {
		after := whole()
		c.change(after)
		got := 0
		onChange(func() { got++ }).OnUpdate(transform(t, whole()), transform(t, after))
		if got != c.want {
			t.Errorf("%s: %d changes, want %d", name, got, c.want)
		}
	}
}
