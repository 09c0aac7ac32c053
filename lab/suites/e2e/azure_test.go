//go:build linux

package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// TestAzureOnWindows checks that the real cloud-node-manager on Wine initializes the Node of a real kubelet, with a metadata service of the test,
// and that the real csi-proxy works.
func TestAzureOnWindows(t *testing.T) {
	needs(t, lab.CanRunWindows())
	p := newHarness(t, testenv.Options{WineHosts: 1, Components: []string{"azure-cloud-node-manager", "csi-proxy"}})
	host := p.Lab.Hosts()[0]
	machine := testenv.AzureMachine{Name: "vm-1", Address: host.Address(), PublicAddress: "203.0.113.7"}
	p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.CSIProxy = v1alpha1.CSIProxyRun })
	p.addLinuxNodeOf("azure:///subscriptions/s/resourceGroups/r/providers/Microsoft.Compute/virtualMachines/linux-1")
	began, name := time.Now(), operatorObject(host.Address())
	must(t, p.Announce(t.Context(), p.Hosts()...))
	p.expectWaitsForCloud(name, "win-1") // the machine's metadata service does not answer yet
	stop, err := host.ServeMetadata(machine)
	must(t, err)
	defer stop()
	p.expectAzureNode("win-1", machine)
	p.expectReady(name)

	pair, err := host.ReadFile(desired.NodeManagerIdentity)
	must(t, err)
	p.expectOtherUpdatesDenied(p.client(func(c *rest.Config) { c.CertData, c.KeyData = pair, pair }))
	p.expectRequests(began, api.NodeManagerUserPrefix+"win-1", "watch nodes win-1", "get nodes win-1", "update nodes win-1", "patch nodes/status win-1")
	if s, found, err := host.Service(t.Context(), desired.NodeManagerService); err != nil || !found || s.State != "running" {
		t.Errorf("service %s: got %+v (%v), want it running", desired.NodeManagerService, s, err)
	}
	p.expectCSIProxy(host)
}

// expectAzureNode waits until a Node has the values of its machine's metadata service, and no taint except that of Windows nodes.
func (p harness) expectAzureNode(name string, machine testenv.AzureMachine) {
	p.t.Helper()
	p.expectFromCloud(name, machine.ProviderID(), testenv.AzureType, testenv.AzureZone, testenv.AzureRegion, func(got []corev1.NodeAddress) bool {
		return slices.Contains(got, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: machine.Address}) &&
			slices.Contains(got, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: machine.PublicAddress}) &&
			slices.Contains(got, corev1.NodeAddress{Type: corev1.NodeHostName, Address: name})
	})
}

// expectOtherUpdatesDenied uses the certificate of win-1's cloud-node-manager to change another Node, and a label of its own Node that it may not
// change. The admission policy must deny both.
func (p harness) expectOtherUpdatesDenied(manager client.Client) {
	p.t.Helper()
	for name, change := range map[string]func(*corev1.Node){
		"linux-1": func(n *corev1.Node) { n.Spec.Taints = nil },
		"win-1":   func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = "elsewhere" },
	} {
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			var n corev1.Node
			if err := manager.Get(p.t.Context(), types.NamespacedName{Name: name}, &n); err != nil {
				return err
			}
			change(&n)
			return manager.Update(p.t.Context(), &n)
		})
		if err == nil || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy 'windows-cloud-node-manager'") {
			p.t.Errorf("update of Node %s by win-1's cloud-node-manager: got %v, want it denied by the policy", name, err)
		}
	}
}

// expectRequests compares a user's requests for objects, each as verb, resource and name, without those of expectOtherUpdatesDenied. It ignores
// lists, because older programs list before they watch.
func (p harness) expectRequests(since time.Time, user string, want ...string) {
	p.t.Helper()
	requests, err := p.Lab.ControlPlane.Requests(since)
	must(p.t, err)
	var got []string
	for _, r := range requests {
		if r.User == user && r.Resource != "" && r.Name != "linux-1" && r.Verb != "list" {
			got = append(got, r.Verb+" "+r.Resource+" "+r.Name)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if got = slices.Compact(got); !slices.Equal(got, want) {
		p.t.Errorf("requests of %s: got %q, want %q", user, got, want)
	}
}
