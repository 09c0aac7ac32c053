//go:build linux

package e2e

import (
	"context"
	"fmt"
	"regexp"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// TestNetworkChecks runs an operator with its own permissions on clusters whose network does not support Windows nodes. The operator
// must report reason and values before it connects to a host, and the commands in its messages must work.
func TestNetworkChecks(t *testing.T) {
	p := newHarness(t, testenv.Options{})
	_, bystander := p.host(sim.Options{Windows: sim.WindowsOptions{Hostname: "bystander"}})
	standing := p.announce(bystander, nil)
	p.expectReady(standing)
	custom := p.config().Spec.Network
	host, h := p.host(sim.Options{Windows: sim.WindowsOptions{Hostname: "waits", Build: 17763}})
	p.configure(func(s *v1alpha1.WindowsConfigSpec) {
		s.Network = v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkFlannel}
	})
	name := p.announce(h, nil)
	t.Run("Flannel", func(t *testing.T) { p.withT(t).flannelFaults(name) })
	p.makeOpenShift("None")
	p.restartOperator() // OpenShift's kinds are discovered at startup
	p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Network = v1alpha1.NetworkSpec{} })
	t.Run("OpenShift", func(t *testing.T) { p.withT(t).openshiftFaults(name) })
	if n := host.SSH().Counters().Connections; n != 0 {
		t.Errorf("the operator connected %d times to a host on an unsupported network, want 0", n)
	}
	t.Run("RemediesWork", func(t *testing.T) { p.withT(t).followAdvice(name) })
	if i := p.instance(standing); !meta.IsStatusConditionTrue(i.Status.Conditions, api.ConditionReady) {
		t.Errorf("an existing node is no longer Ready: %+v", i.Status.Conditions)
	}
	p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Network = custom })
	p.expectReady(name)
}

// flannelFaults creates and changes Flannel's ConfigMap.
func (p harness) flannelFaults(name types.NamespacedName) {
	p.expect(name, api.ConditionReady, api.ReasonFlannelNotFound, "ConfigMap kube-flannel/kube-flannel-cfg")
	p.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.FlannelNamespace}})
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.FlannelNamespace, Name: v1alpha1.FlannelConfigMap},
		Data:       map[string]string{"net-conf.json": `{"Network": "10.244.0.0/16", "EnableNFTables": false, "Backend": {"Type": "vxlan"}}`},
	}
	p.create(cm)
	p.expect(name, api.ConditionReady, api.ReasonFlannelUnsuitable, "Backend.VNI is not set", "Backend.Port is not set", "kubectl -n kube-flannel patch")
	cm.Data["net-conf.json"] = `{"Network": "10.0.0.0/8", "Backend": {"Type": "vxlan", "VNI": 4096, "Port": 4789}}`
	must(p.t, p.Client.Update(p.t.Context(), cm))
	p.expect(name, api.ConditionReady, api.ReasonNetworksOverlap, "10.0.0.0/8")
}

// openshiftFaults changes OpenShift's network repeatedly.
func (p harness) openshiftFaults(name types.NamespacedName) {
	const good = "{hybridClusterNetwork: [{cidr: 10.132.0.0/14, hostPrefix: 23}]}"
	for _, fault := range []struct {
		name, kind, pods, hybrid string
		reason                   string
		message                  []string
	}{
		{"another network", "OpenShiftSDN", "10.128.0.0/14", "null", api.ReasonNetworkTypeUnsupported, []string{`"OpenShiftSDN"`, "OVNKubernetes"}},
		{"no hybrid overlay", "OVNKubernetes", "10.128.0.0/14", "null", api.ReasonHybridOverlayNotConfigured,
			[]string{"oc patch networks.operator.openshift.io cluster --type=merge -p '"}},
		{"overlap", "OVNKubernetes", "10.128.0.0/14", "{hybridClusterNetwork: [{cidr: 10.130.0.0/16, hostPrefix: 23}]}", api.ReasonNetworksOverlap,
			[]string{"10.130.0.0/16", "10.128.0.0/14", `"cidr":"10.132.0.0/14"`}},
		{"overlap with Services", "OVNKubernetes", "10.128.0.0/14", "{hybridClusterNetwork: [{cidr: 10.0.0.0/9, hostPrefix: 23}]}", api.ReasonNetworksOverlap,
			[]string{"10.0.0.0/9", "service network"}},
		{"class E", "OVNKubernetes", "248.0.0.0/14", good, api.ReasonClusterNetworkReserved, []string{"248.0.0.0/14", "240.0.0.0/4"}},
		{"IPv6 only", "OVNKubernetes", "fd01::/48", good, api.ReasonClusterNetworkIPv6Only, []string{"fd01::/48"}},
	} {
		p.withT(p.t).network(fault.kind, fault.pods, fault.hybrid)
		p.expect(name, api.ConditionReady, fault.reason, fault.message...)
		p.eventually("WindowsConfig reports the same: "+fault.name, func(context.Context) string {
			c := meta.FindStatusCondition(p.config().Status.Conditions, api.ConditionPublished)
			if c == nil || c.Status != metav1.ConditionFalse || c.Reason != fault.reason {
				return fmt.Sprintf("got condition %+v", c)
			}
			return ""
		})
	}
}

// followAdvice enables the hybrid overlay with only the commands in the messages, until the last problem is the host's version of
// Windows.
func (p harness) followAdvice(name types.NamespacedName) {
	p.platform("VSphere")
	p.network("OVNKubernetes", "10.128.0.0/14", "{hybridClusterNetwork: [{cidr: 10.132.0.0/14, hostPrefix: 23}]}")
	p.expect(name, api.ConditionReady, api.ReasonVXLANPortRequired, "UDP port 4789", "9898")
	p.runPatches(meta.FindStatusCondition(p.instance(name).Status.Conditions, api.ConditionReady).Message, 2)
	p.expect(name, api.ConditionSupported, api.ReasonVXLANPortUnsupported, "UDP port 9898", "17763")
	p.network("OVNKubernetes", "10.128.0.0/14", "null")
	_, h := p.host(sim.Options{Windows: sim.WindowsOptions{Hostname: "later"}})
	later := p.announce(h, nil)
	p.expect(later, api.ConditionReady, api.ReasonHybridOverlayNotConfigured)
	p.runPatches(meta.FindStatusCondition(p.instance(later).Status.Conditions, api.ConditionReady).Message, 1)
	p.expect(later, api.ConditionSupported, api.ReasonSupported)
	p.platform("None")
}

// runPatches applies the patches of the commands of oc in a message.
func (p harness) runPatches(message string, want int) {
	p.t.Helper()
	commands := regexp.MustCompile(`oc patch networks\.operator\.openshift\.io cluster --type=merge -p '([^']*)'`).FindAllStringSubmatch(message, -1)
	if len(commands) != want {
		p.t.Fatalf("%d commands in %q, want %d", len(commands), message, want)
	}
	for _, c := range commands {
		p.patch("operator.openshift.io/v1 Network cluster", c[1])
	}
}

// network sets OpenShift's network.
func (p harness) network(kind, pods, hybridOverlay string) {
	p.t.Helper()
	p.patch("config.openshift.io/v1 Network cluster", "status: {networkType: "+kind+", clusterNetwork: [{cidr: '"+pods+"', hostPrefix: 23}]}")
	p.patch("operator.openshift.io/v1 Network cluster",
		"spec: {defaultNetwork: {type: OVNKubernetes, ovnKubernetesConfig: {hybridOverlayConfig: "+hybridOverlay+"}}}")
}

// platform sets the cluster's platform. The operator does not watch it, because on real clusters it never changes.
func (p harness) platform(name string) {
	p.t.Helper()
	p.patchStatus("config.openshift.io/v1 Infrastructure cluster", "status: {platformStatus: {type: "+name+"}}")
}
