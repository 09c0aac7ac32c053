package storytest

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
)

// TestStoryWrongNetwork: the operator does not connect to hosts while the cluster's network cannot include them.
func TestStoryWrongNetwork(t *testing.T) {
	runStory(t, "wrong-network", 1, atMost(1), func(s *story) {
		dialed := s.counted()
		kubeadm := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kubeadm-config"},
			Data:       map[string]string{"ClusterConfiguration": "networking: {podSubnet: 240.0.0.0/8}"},
		}
		s.must(s.client.Create(s.ctx, kubeadm))
		good := s.rules().Spec.Network
		s.configure(func(c *v1alpha1.WindowsConfigSpec) {
			c.Network = v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkOVNHybridOverlay}
		})
		s.announce(s.hosts...)
		s.pass(10 * time.Minute)
		i := s.instance("win-1")
		configured := kube.Condition(i, api.ConditionConfigured)
		if len(dialed) > 0 || configured.Reason != api.ReasonClusterNetworkReserved || !strings.Contains(configured.Message, "240.0.0.0/8") ||
			kube.Condition(i, api.ConditionReady).Reason != api.ReasonClusterNetworkReserved || meta.FindStatusCondition(i.Status.Conditions, api.ConditionReachable) != nil {
			s.t.Errorf("after connections %v: %+v", dialed, i.Status.Conditions)
		}
		s.configure(func(c *v1alpha1.WindowsConfigSpec) { c.Network = good })
		s.until("the host is a node", time.Hour, func() bool { return s.ready() == 1 })
	})
}

// TestStoryAPIServerUnreachable: nothing is installed on a host that cannot reach the API server; the join continues once it can.
func TestStoryAPIServerUnreachable(t *testing.T) {
	runStory(t, "api-server-out-of-reach", 1, atMost(1), func(s *story) {
		host := s.hosts[0]
		host.isolated = "resolving lb-apiserver.kubernetes.local: no such host"
		s.announce(host)
		s.pass(10 * time.Minute)
		c := kube.Condition(s.instance("win-1"), api.ConditionReady)
		if c.Reason != api.ReasonAPIServerUnreachable || !strings.Contains(c.Message, host.isolated) || !strings.Contains(c.Message, "https://10.3.0.5:6443") ||
			!strings.Contains(c.Message, "EndpointSlice default/kubernetes") || host.token != "" || host.version != "" {
			s.t.Errorf("the host has version %q and token %q, and its instance has condition %+v", host.version, host.token, c)
		}
		host.isolated = ""
		s.until("the host is a node", time.Hour, func() bool { return s.ready() == 1 })
	})
}
