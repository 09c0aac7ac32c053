//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sshserver"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// TestPlugin runs the program kubectl-windows: it adds hosts and waits for them, shows them, pauses, reboots and removes them, reports why a host does
// not join, and reports a missing permission.
func TestPlugin(t *testing.T) {
	p := newPluginTest(newHarness(t, testenv.Options{SimulatedHosts: 2, NoQuirks: "the test compares the output for healthy hosts"}))
	run := func(t *testing.T, code int, args []string, parts ...string) testenv.PluginResult {
		t.Helper()
		return p.withT(t).run(code, args, parts...)
	}
	first, second := p.Hosts()[0], p.Hosts()[1]
	run(t, 0, []string{"status"}, "none; add one with kubectl windows add")
	run(t, 0, []string{"add", first.Address, second.Address, "-u", testenv.User}, "entry "+first.Address+" added", "Ready")
	run(t, 0, []string{"status"}, "2 of 2 Ready", first.Name, second.Name)
	run(t, 0, []string{"describe", first.Name}, "State Ready", first.Address, "Reachable: Connected", "Configure", "Kubelet")
	run(t, 0, []string{"version"}, "Nodes", "2 (")
	run(t, 0, []string{"plan"}, "No actions are due.")
	run(t, 0, []string{"plan", "--remove", first.Address}, "Leave", "Drain")
	// The Deployment has no pod here: the operator is a process next to the API server.
	run(t, 3, []string{"check"}, "leader: the operator is running", "SSH key: Secret cloud-private-key contains a key", "hosts: all 2 are Ready", "OperatorNotReady")
	run(t, 0, []string{"check", "--pre", "--host", first.Address}, "Kubernetes: v1.37", "pod network: supports Windows nodes", "rights: you are allowed to install",
		"this machine can connect to its SSH server")
	run(t, 0, []string{"migrate", "--check"})
	run(t, 7, []string{"describe", "nowhere"}, `no host "nowhere"`)
	t.Run("status prints JSON", func(t *testing.T) {
		var f fleetstatus.Fleet
		if err := json.Unmarshal([]byte(run(t, 0, []string{"status", "-o", "json"}).Out), &f); err != nil || len(f.Hosts) != 2 {
			t.Errorf("got %+v (%v), want two hosts", f, err)
		}
	})
	t.Run("a host that rejects the key is reported", func(t *testing.T) {
		other, _, err := sshserver.NewKey()
		must(t, err)
		_, h := p.withT(t).host(sim.Options{Windows: sim.WindowsOptions{Hostname: "locked"}, AuthorizedKeys: []ssh.PublicKey{other.PublicKey()}})
		run(t, 3, []string{"add", h.Address, "-u", testenv.User}, api.ReasonAuthenticationFailed, "administrators_authorized_keys", "is blocked")
		run(t, 0, []string{"status"}, api.ReasonAuthenticationFailed, "administrators_authorized_keys")
		run(t, 0, []string{"describe", h.Address}, "State Failed", api.ReasonAuthenticationFailed, "Connect Failed")
		run(t, 0, []string{"remove", h.Address, "--yes", "--wait=false"}, "removed")
		run(t, 0, []string{"status", "-o", "name"})
	})
	t.Run("a paused host is not rebooted", func(t *testing.T) {
		p := p.withT(t)
		name := p.instanceAt(first)
		run(t, 0, []string{"pause", first.Address}, "paused")
		if !p.instance(name).Spec.Paused {
			t.Error("the instance is not paused")
		}
		run(t, 0, []string{"resume", first.Address}, "resumed")
		run(t, 0, []string{"pause", "--all"}, "paused")
		run(t, 0, []string{"reboot", first.Name, "--yes"}, "reboot requested")
		p.eventually("status reports the waiting reboot", func(context.Context) string {
			r, err := p.plugin.Run(t.Context(), "status")
			if err != nil {
				return err.Error()
			}
			return r.Missing("Reboot for Paused", "kubectl windows resume --all")
		})
		before := p.node(first.Name).Status.NodeInfo.BootID
		run(t, 0, []string{"resume", "--all"}, "resumed")
		p.eventually("the host has rebooted", func(context.Context) string {
			if node := p.node(first.Name); node.Status.NodeInfo.BootID == before {
				return "the boot ID is unchanged"
			}
			return ""
		})
	})
	t.Run("a missing permission is reported", func(t *testing.T) {
		p := p.withT(t)
		p.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: "guest"}})
		guest, err := p.PluginFor(t.Context(), api.DefaultNamespace, "guest")
		must(t, err)
		r, err := guest.Run(t.Context(), "status")
		must(t, err)
		if missing := r.Missing("missing permission: list windowsinstances", "guest"); r.Code != 5 || missing != "" {
			t.Errorf("exit code %d, want 5; %s", r.Code, missing)
		}
	})
	run(t, 0, []string{"remove", first.Name, second.Name, "--yes"}, "has left")
}

// instanceAt returns the name of the instance of a host.
func (p harness) instanceAt(h testenv.Host) (name types.NamespacedName) {
	p.t.Helper()
	p.eventually("host "+h.Address+" has an instance", func(ctx context.Context) string {
		var list v1alpha1.WindowsInstanceList
		if err := p.Client.List(ctx, &list); err != nil {
			return err.Error()
		}
		for i := range list.Items {
			if list.Items[i].Spec.Address == h.Address {
				name = client.ObjectKeyFromObject(&list.Items[i])
				return ""
			}
		}
		return fmt.Sprintf("none of %d instances has the address", len(list.Items))
	})
	return name
}
