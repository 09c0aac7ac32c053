package settings

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/windows-machine-config/wmco/internal/desired"
)

// TestServicesOfAnyPublishedVersionAreDeclared looks in ConfigMaps of the operator's namespace, and in no others.
func TestServicesOfAnyPublishedVersionAreDeclared(t *testing.T) {
	published := func(namespace, name, services string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{"services": services}}
	}
	const has, hasNot = `[{"name":"kubelet"},{"name":"cloud-node-manager"}]`, `[{"name":"kubelet"}]`
	for name, test := range map[string]struct {
		objects []client.Object
		want    bool
	}{
		"nothing is published": {nil, false},
		"none has it":          {[]client.Object{published("ns", "windows-services-1", hasNot)}, false},
		"one of two has it":    {[]client.Object{published("ns", "windows-services-1", hasNot), published("ns", "windows-services-2", has)}, true},
		"in another namespace": {[]client.Object{published("other", "windows-services-1", has)}, false},
		"in another ConfigMap": {[]client.Object{published("ns", "services", has)}, false},
		"not JSON":             {[]client.Object{published("ns", "windows-services-1", "cloud-node-manager")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithObjects(test.objects...).Build()
			if got, err := NewStore(c, c, "ns").Declares(t.Context(), desired.NodeManagerService); err != nil || got != test.want {
				t.Errorf("declared: %v (%v), want %v", got, err, test.want)
			}
		})
	}
}
