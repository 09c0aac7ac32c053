package settings

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// TestServicesOfAnyPublishedVersionAreDeclared expects only what the operator signed in its namespace to count.
func TestServicesOfAnyPublishedVersionAreDeclared(t *testing.T) {
	published := func(namespace, name, services string, key byte) *corev1.ConfigMap {
		data := map[string]string{"services": services}
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: controllertest.SignedBy(t, key, name, data)}
	}
	const with, without = `[{"name":"kubelet"},{"name":"cloud-node-manager"}]`, `[{"name":"kubelet"}]`
	unsigned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "windows-services-1"}, Data: map[string]string{"services": with}}
	renamed := published("ns", "windows-services-1", with, 0)
	renamed.Name = "windows-services-2"
	for name, test := range map[string]struct {
		objects []client.Object
		want    bool
	}{
		"nothing is published":       {nil, false},
		"no version has it":          {[]client.Object{published("ns", "windows-services-1", without, 0)}, false},
		"one of two versions has it": {[]client.Object{published("ns", "windows-services-1", without, 0), published("ns", "windows-services-2", with, 0)}, true},
		"in another namespace":       {[]client.Object{published("other", "windows-services-1", with, 0)}, false},
		"in another ConfigMap":       {[]client.Object{published("ns", "services", with, 0)}, false},
		"not JSON":                   {[]client.Object{published("ns", "windows-services-1", "cloud-node-manager", 0)}, false},
		"not signed":                 {[]client.Object{unsigned}, false},
		"signed with another key":    {[]client.Object{published("ns", "windows-services-1", with, 1)}, false},
		"signed for another name":    {[]client.Object{renamed}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithObjects(append(test.objects, controllertest.SigningSecret(t, 0))...).Build()
			if got, err := NewStore(c, c, "ns").Declares(t.Context(), desired.NodeManagerService); err != nil || got != test.want {
				t.Errorf("declared: %v (%v), want %v", got, err, test.want)
			}
		})
	}
	c := fake.NewClientBuilder().WithObjects(published("ns", "windows-services-1", with, 0)).Build()
	if got, err := NewStore(c, c, "ns").Declares(t.Context(), desired.NodeManagerService); err != nil || got {
		t.Errorf("without a key: declared: %v (%v), want false", got, err)
	}
}

// TestVersionOrderIsReused: an existing order is not written again, and a new one is later than any before it.
func TestVersionOrderIsReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kubeSystem := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: controllertest.ClusterID}}
		c := fake.NewClientBuilder().WithObjects(kubeSystem, controllertest.SigningSecret(t, 1)).Build()
		store := NewStore(c, c, "ns")
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1", UID: "one", Annotations: map[string]string{}}}
		order := func(version string, key byte) (serial int64, isNew bool) {
			t.Helper()
			text, err := store.OrderVersion(t.Context(), node, version)
			if err != nil {
				t.Fatal(err)
			}
			isNew = text != node.Annotations[api.AnnotationVersionOrder]
			node.Annotations[api.AnnotationDesiredVersion], node.Annotations[api.AnnotationVersionOrder] = version, text
			of := desired.VersionOrder{Cluster: controllertest.ClusterID, Node: node.Name, UID: string(node.UID), Version: version}
			if serial, err = of.Verify(text, desired.PublicKey(controllertest.SigningKey(key))); err != nil {
				t.Fatal(err)
			}
			return serial, isNew
		}
		first, _ := order("2", 1)
		if first != time.Now().UnixMilli() {
			t.Errorf("serial %d, want the time", first)
		}
		time.Sleep(time.Hour)
		if again, isNew := order("2", 1); isNew || again != first {
			t.Error("an existing order was written again")
		}
		ahead := time.Now().Add(time.Hour).UnixMilli() // by a clock that has been set back since
		ordered := desired.VersionOrder{Cluster: controllertest.ClusterID, Node: "win-1", UID: "one", Version: "2"}
		node.Annotations[api.AnnotationVersionOrder] = ordered.Sign(ahead, controllertest.SigningKey(1))
		if back, _ := order("1", 1); back <= ahead {
			t.Errorf("serial %d follows %d", back, ahead)
		}
		node.Annotations[api.AnnotationVersionOrder] = "9000000000000000000.AAAA" // not signed by the operator
		if serial, isNew := order("1", 1); !isNew || serial != time.Now().UnixMilli() {
			t.Errorf("a foreign order leads to serial %d", serial)
		}
		node.UID = types.UID("another")
		if _, isNew := order("1", 1); !isNew {
			t.Error("the order for a Node that was deleted stays")
		}
		if err := c.Delete(t.Context(), controllertest.SigningSecret(t, 1)); err != nil {
			t.Fatal(err)
		}
		if _, err := store.OrderVersion(t.Context(), node, "1"); err == nil {
			t.Error("got an order without a key")
		}
		if err := c.Create(t.Context(), controllertest.SigningSecret(t, 2)); err != nil {
			t.Fatal(err)
		}
		if _, isNew := order("1", 2); !isNew {
			t.Error("an order signed with another key stays")
		}
	})
}
