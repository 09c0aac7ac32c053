package cli_test

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/cli/clitest"
	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/policyset"
)

const policySets = api.GroupName + "/v1alpha1/windowspolicysets"

// policyCluster has pods shop/web-1, which has policies, shop/web-2, which the operator has not seen, other/free without policies, and pods that
// have no rules on Windows.
func policyCluster(t *testing.T, policies v1alpha1.NetworkPolicies) *clitest.Cluster {
	t.Helper()
	c := clitest.New(t)
	c.Add("v1/nodes", &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "win-1", Labels: map[string]string{corev1.LabelOSStable: "windows"}},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.1.42.1"}}},
	})
	c.Add("v1/nodes", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "linux-1", Labels: map[string]string{corev1.LabelOSStable: "linux"}}})
	pod := func(namespace, name, uid, node string, hostNetwork bool) {
		c.Add("v1/pods", &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)},
			Spec:       corev1.PodSpec{NodeName: node, HostNetwork: hostNetwork},
			Status:     corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "10.132.0.5"}}},
		})
	}
	pod("shop", "web-1", "uid-1", "win-1", false)
	pod("shop", "web-2", "uid-2", "win-1", false)
	pod("other", "free", "uid-3", "win-1", false)
	pod("shop", "agent", "uid-4", "win-1", true)
	pod("shop", "linux", "uid-5", "linux-1", false)
	pod("shop", "pending", "uid-6", "", false)
	c.Add(instances, &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "wmco", Name: "win-1"}})
	config := &v1alpha1.WindowsConfig{ObjectMeta: metav1.ObjectMeta{Name: api.WindowsConfigName}}
	config.Spec.Network.Policies = policies
	c.Add(configs, config)
	front, second := 0, 1
	data, err := policyset.Encode(policyset.Set{
		Namespace: "shop",
		Unlisted:  policyset.Directions{Ingress: true, Egress: true},
		Policies: []policyset.Policy{
			{Name: "deny-all", Isolates: policyset.Directions{Ingress: true, Egress: true}},
			{Name: "web", Isolates: policyset.Directions{Ingress: true}, Ingress: []policyset.Rule{
				{Peers: &front, Ports: []policyset.Port{{Protocol: hns.TCP, First: 80, Last: 89}, {Protocol: hns.TCP, First: 8080, Last: 8080}}},
				{Peers: &second, AnyPort: true},
			}},
		},
		Addresses: [][]netip.Prefix{{netip.MustParsePrefix("10.132.1.7/32"), netip.MustParsePrefix("10.200.0.0/16")}, {netip.MustParsePrefix("192.168.0.0/24")}},
		Pods:      []policyset.Pod{{Name: "web-1", UID: "uid-1", Policies: []int{0, 1}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.Add(policySets, &v1alpha1.WindowsPolicySet{ObjectMeta: metav1.ObjectMeta{Namespace: "wmco", Name: "shop"}, Spec: v1alpha1.WindowsPolicySetSpec{Set: string(data)}})
	return c
}

func TestPolicyShowsRulesOfPod(t *testing.T) {
	c := policyCluster(t, v1alpha1.PoliciesEnforce)
	r := c.Run(t, "", "policy", "shop/web-1", "--from", "10.200.3.4", "--port", "8080")
	if r.Code != session.CodeOK {
		t.Errorf("exit code %d: %s", r.Code, r.Err)
	}
	golden(t, "policy.golden", r.Out)
	r = c.Run(t, "", "policy", "shop/web-1", "--to", "10.96.0.10", "--port", "53/udp", "-o", "yaml")
	if r.Code != session.CodeFindings || r.Err != "" {
		t.Errorf("exit code %d: %s", r.Code, r.Err)
	}
	golden(t, "policy-yaml.golden", r.Out)
}

func TestPolicyExplainsVerdict(t *testing.T) {
	for name, test := range map[string]struct {
		policies v1alpha1.NetworkPolicies
		args     string
		want     string
		code     int
	}{
		"not allowed":     {"Enforce", "shop/web-1 --from 10.132.1.8 --port 80", "from 10.132.1.8, port 80/TCP: not allowed: isolated by deny-all, web, and no policy allows it", session.CodeFindings},
		"from its node":   {"Enforce", "shop/web-1 --from 10.1.42.1 --port 1", "allowed: no policy restricts connections of a node", session.CodeOK},
		"not seen yet":    {"Enforce", "shop/web-2 --from 10.132.1.7 --port 80", "not allowed until the operator has seen the pod", session.CodeFindings},
		"nothing":         {"Enforce", "other/free --from 10.132.1.7 --port 80", "Enforced      the namespace has no NetworkPolicies", session.CodeOK},
		"off":             {v1alpha1.PoliciesOff, "other/free", "no: spec.network.policies of WindowsConfig is Off", session.CodeOK},
		"reported":        {"Report", "shop/web-1", "no: spec.network.policies of WindowsConfig is Report", session.CodeOK},
		"a host's pod":    {"Enforce", "shop/agent", "NetworkPolicies do not restrict such pods", session.CodeFailed},
		"a pod for Linux": {"Enforce", "shop/linux", "not a Windows node", session.CodeFailed},
		"no node yet":     {"Enforce", "shop/pending", "no node yet", session.CodeFailed},
		"no pod":          {"Enforce", "shop/absent", "there is no pod shop/absent", session.CodeNotFound},
		"no namespace":    {"Enforce", "web-1", "requires one pod, as NAMESPACE/POD", session.CodeUsage},
		"no port":         {"Enforce", "shop/web-1 --from 10.0.0.1", "a connection requires --port", session.CodeUsage},
		"both directions": {"Enforce", "shop/web-1 --from 10.0.0.1 --to 10.0.0.2 --port 1", "one of --from and --to", session.CodeUsage},
		"an IPv6 address": {"Enforce", "shop/web-1 --from fd00::1 --port 1", `--from is "fd00::1"; an IPv4 address is required`, session.CodeUsage},
		"port 0":          {"Enforce", "shop/web-1 --to 10.0.0.1 --port 0", `--port is "0"`, session.CodeUsage},
		"a protocol":      {"Enforce", "shop/web-1 --to 10.0.0.1 --port 80/GRE", `--port is "80/GRE"`, session.CodeUsage},
	} {
		t.Run(name, func(t *testing.T) {
			r := policyCluster(t, test.policies).Run(t, "", append([]string{"policy"}, strings.Fields(test.args)...)...)
			if r.Code != test.code || !strings.Contains(r.Out+r.Err, test.want) {
				t.Errorf("exit code %d: %s%s", r.Code, r.Out, r.Err)
			}
		})
	}
}

func TestPolicyLeavesNetworksOfUsersAlone(t *testing.T) {
	c := policyCluster(t, "")
	config := &v1alpha1.WindowsConfig{ObjectMeta: metav1.ObjectMeta{Name: api.WindowsConfigName}}
	config.Spec.Network.Provider = v1alpha1.NetworkCustom
	c.Add(configs, config)
	if r := c.Run(t, "", "policy", "other/free"); r.Code != session.CodeFailed || !strings.Contains(r.Err, "up to your network") {
		t.Errorf("exit code %d: %s%s", r.Code, r.Out, r.Err)
	}
}

// TestPolicyRejectsUnknownFormat: this version of the command must not explain what it cannot read.
func TestPolicyRejectsUnknownFormat(t *testing.T) {
	c := policyCluster(t, v1alpha1.PoliciesEnforce)
	c.Add(policySets, &v1alpha1.WindowsPolicySet{ObjectMeta: metav1.ObjectMeta{Namespace: "wmco", Name: "shop"}, Spec: v1alpha1.WindowsPolicySetSpec{Set: `{"version":2,"namespace":"shop"}`}})
	if r := c.Run(t, "", "policy", "shop/web-1"); r.Code != session.CodeFailed || r.Out != "" || !strings.Contains(r.Err, "use the version of the operator") {
		t.Errorf("exit code %d: %s%s", r.Code, r.Out, r.Err)
	}
}
