//go:build linux

package e2e

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sshserver"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// TestBadInput has a subtest for each kind of bad input. The operator must report it, leave a bystander unchanged, and continue without
// a restart after the fix.
func TestBadInput(t *testing.T) {
	p := newHarness(t, testenv.Options{})
	_, bystander := p.host(sim.Options{Windows: sim.WindowsOptions{Hostname: "bystander"}})
	standing := p.announce(bystander, nil)
	p.expectReady(standing)
	before := p.instance(standing).Status.Conditions
	tests := map[string]func(harness){
		"PrivateKey":          privateKeyFaults,
		"ConfigMapEntries":    entryFaults,
		"ConnectionRefused":   connectionRefused,
		"ConnectionTimeout":   connectionTimeout,
		"LoginRejected":       loginRejected,
		"HostKeyChanged":      hostKeyChanged,
		"PinnedInAdvance":     pinnedInAdvance,
		"UnsupportedHosts":    unsupportedHosts,
		"DuplicateHostname":   duplicateHostname,
		"NameOfLinuxNode":     nameOfLinuxNode,
		"ForeignService":      foreignService,
		"NoNetworkProvider":   noNetwork,
		"PausedInstance":      pausedInstance,
		"FeatureNeedsRestart": featureNeedsRestart,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(p.withT(t)) })
	}
	for i, c := range p.instance(standing).Status.Conditions {
		if c.Status != before[i].Status || c.LastTransitionTime != before[i].LastTransitionTime {
			t.Errorf("the bystander's condition %s changed from %+v to %+v", c.Type, before[i], c)
		}
	}
}

func privateKeyFaults(p harness) {
	_, private, _ := ed25519.GenerateKey(rand.Reader)
	encrypted, err := ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte("secret passphrase"))
	must(p.t, err)
	signer, err := ssh.NewSignerFromKey(private)
	must(p.t, err)
	_, h := p.host(sim.Options{Windows: sim.WindowsOptions{Hostname: "key-faults"}})
	p.key(nil)
	name := p.announce(h, nil)
	p.expect(name, api.ConditionStalled, api.ReasonPrivateKeyMissing, "ssh-keygen", "private-key.pem")
	for _, bad := range []struct {
		key     []byte
		message string
	}{
		{[]byte("not a key"), "PEM"},
		{pem.EncodeToMemory(encrypted), "passphrase"},
		{ssh.MarshalAuthorizedKey(signer.PublicKey()), "public key"},
	} {
		p.key(bad.key)
		p.expect(name, api.ConditionStalled, api.ReasonPrivateKeyInvalid, bad.message, "ssh-keygen")
	}
	p.key(p.Key)
	p.expectReady(name)
}

func entryFaults(p harness) {
	_, h := p.host(sim.Options{Windows: sim.WindowsOptions{Hostname: "good-entry"}})
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: api.InstancesConfigMap},
		Data: map[string]string{
			h.Address:           "username=" + testenv.User,
			"192.0.2.1":         "Administrator",
			"192.0.2.2":         "",
			"192.0.2.3":         "username=",
			"no-such-host.test": "username=a",
			"1.2.3":             "username=a",
			"not_a_name":        "username=a",
			"localhost":         "username=a",
			"10.96.0.1":         "username=a",
		},
	}
	p.create(cm)
	p.expectEvent(cm.Name, api.EventInstanceInvalid, `"192.0.2.1"`, "username=")
	p.expectEvent(cm.Name, api.EventInstanceInvalid, `"192.0.2.2"`, "empty")
	p.expectEvent(cm.Name, api.EventInstanceInvalid, `"192.0.2.3"`, "user name")
	p.expectEvent(cm.Name, api.EventInstanceInvalid, `"no-such-host.test"`, "resolve")
	p.expectEvent(cm.Name, api.EventInstanceInvalid, `"1.2.3"`, "IPv4")
	p.expectEvent(cm.Name, api.EventInstanceInvalid, `"not_a_name"`, "DNS name")
	p.expectReady(operatorObject(h.Address))
	p.expectEvent(cm.Name, api.EventInstanceInvalid, `"localhost"`, "has no dot")
	p.expectEvent(cm.Name, api.EventInstanceInvalid, `"10.96.0.1"`, "Services")
}

func connectionRefused(p harness) {
	_, h := p.host(sim.Options{Windows: sim.WindowsOptions{Hostname: "refused"}})
	good := h.Port
	listener, err := net.Listen("tcp", h.Address+":0")
	must(p.t, err)
	h.Port = int32(listener.Addr().(*net.TCPAddr).Port)
	_ = listener.Close()
	name := p.announce(h, nil)
	p.expect(name, api.ConditionReachable, api.ReasonConnectionRefused, "OpenSSH")
	p.change(name, func(i *v1alpha1.WindowsInstance) { i.Spec.Port = good })
	p.expectReady(name)
}

func connectionTimeout(p harness) {
	host, h := p.host(sim.Options{Windows: sim.WindowsOptions{Hostname: "silent"}})
	host.SSH().SetFaults(func(int) sshserver.Fault { return sshserver.Fault{Stall: true} })
	name := p.announce(h, nil)
	p.expect(name, api.ConditionReachable, api.ReasonConnectionTimeout, "firewall")
	host.SSH().SetFaults(nil)
	p.expectReady(name)
}

func loginRejected(p harness) {
	host, h := p.host(sim.Options{Windows: sim.WindowsOptions{Hostname: "no-key"}})
	host.SSH().SetFaults(func(int) sshserver.Fault { return sshserver.Fault{RefuseLogin: true} })
	name := p.announce(h, nil)
	p.expect(name, api.ConditionReachable, api.ReasonAuthenticationFailed, testenv.User, "SHA256:", "administrators_authorized_keys")
	host.SSH().SetFaults(nil)
	p.expectReady(name)
}

func hostKeyChanged(p harness) {
	host, h := p.host(sim.Options{Windows: sim.WindowsOptions{Hostname: "new-key", Build: 7601}})
	name := p.announce(h, nil)
	p.expect(name, api.ConditionSupported, api.ReasonBuildUnsupported, "7601")
	pinned := p.instance(name).Status.HostKeyFingerprint
	signer, _, err := sshserver.NewKey()
	must(p.t, err)
	host.SSH().SetFaults(func(int) sshserver.Fault { return sshserver.Fault{HostKey: signer} })
	p.expect(name, api.ConditionReachable, api.ReasonHostKeyChanged, pinned, ssh.FingerprintSHA256(signer.PublicKey()), "spec.hostKey")
	p.expect(name, api.ConditionStalled, api.ReasonHostKeyChanged)
	sent := host.SSH().Counters().ExecChannels
	line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
	p.change(name, func(i *v1alpha1.WindowsInstance) { i.Spec.HostKey = line })
	p.expect(name, api.ConditionReachable, api.ReasonConnected)
	if now := host.SSH().Counters().ExecChannels; now <= sent {
		p.t.Errorf("commands after the new key was confirmed: got %d, want more than %d", now, sent)
	}
}

func pinnedInAdvance(p harness) {
	_, h := p.host(sim.Options{Windows: sim.WindowsOptions{Hostname: "pinned"}})
	other, _, err := sshserver.NewKey()
	must(p.t, err)
	name := p.announce(h, func(i *v1alpha1.WindowsInstance) {
		i.Spec.HostKey = strings.TrimSpace(string(ssh.MarshalAuthorizedKey(other.PublicKey())))
	})
	p.expect(name, api.ConditionReachable, api.ReasonHostKeyChanged)
	p.change(name, func(i *v1alpha1.WindowsInstance) { i.Spec.HostKey = "" })
	p.expectReady(name)
}

func unsupportedHosts(p harness) {
	tests := []struct {
		name    string
		windows sim.WindowsOptions
		reason  string
		message string
	}{
		{"old-build", sim.WindowsOptions{Build: 14393}, api.ReasonBuildUnsupported, "14393"},
		{"arm", sim.WindowsOptions{Architecture: "arm64"}, api.ReasonArchitectureUnsupported, "arm64"},
		{"desktop", sim.WindowsOptions{Installation: "Client"}, api.ReasonEditionUnsupported, "Client"},
		{"full-disk", sim.WindowsOptions{FreeBytes: 4 << 30}, api.ReasonDiskTooSmall, "4.0 GB"},
		{"slow-clock", sim.WindowsOptions{Skew: -3 * time.Minute}, api.ReasonClockSkewed, "behind"},
	}
	for _, test := range tests {
		p.t.Run(test.name, func(t *testing.T) {
			p := p.withT(t)
			test.windows.Hostname = test.name
			host, h := p.host(sim.Options{Windows: test.windows})
			name := p.announce(h, nil)
			p.expect(name, api.ConditionSupported, test.reason, test.message)
			if host.Windows().Service("kubelet").Name != "" {
				t.Error("an unsupported host was changed")
			}
		})
	}
	p.t.Run("underscore", func(t *testing.T) {
		p := p.withT(t)
		_, h := p.host(sim.Options{Windows: sim.WindowsOptions{Hostname: "under_score"}})
		h.Name = "underscore"
		p.expect(p.announce(h, nil), api.ConditionSupported, api.ReasonHostnameInvalid, "under_score")
	})
}

func duplicateHostname(p harness) {
	_, first := p.host(sim.Options{Windows: sim.WindowsOptions{Hostname: "twin"}})
	_, clone := p.host(sim.Options{Windows: sim.WindowsOptions{Hostname: "TWIN"}})
	p.expectReady(p.announce(first, nil))
	clone.Name = "clone"
	p.expect(p.announce(clone, nil), api.ConditionSupported, api.ReasonHostnameConflict, "twin")
}

func nameOfLinuxNode(p harness) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "penguin", Labels: map[string]string{corev1.LabelOSStable: "linux"}}}
	p.create(node)
	_, h := p.host(sim.Options{Windows: sim.WindowsOptions{Hostname: "penguin"}})
	name := p.announce(h, nil)
	p.expect(name, api.ConditionSupported, api.ReasonHostnameConflict, "penguin")
	p.remove(node)
	p.expectReady(name)
}

func foreignService(p harness) {
	host, h := p.host(sim.Options{Windows: sim.WindowsOptions{Hostname: "foreign"}})
	if _, err := host.Windows().Host().Services.Put(p.t.Context(), desired.Service{
		Name: "containerd", Description: "somebody's", Command: `C:\docker\containerd.exe`,
	}); err != nil {
		p.t.Fatal(err)
	}
	p.expect(p.announce(h, nil), api.ConditionSupported, api.ReasonServiceConflict, "containerd", `C:\docker`)
}

func noNetwork(p harness) {
	good := p.config().Spec.Network
	p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Network = v1alpha1.NetworkSpec{} })
	_, h := p.host(sim.Options{Windows: sim.WindowsOptions{Hostname: "no-network"}})
	name := p.announce(h, nil)
	p.expect(name, api.ConditionConfigured, api.ReasonNetworkNotConfigured, "spec.network.provider")
	p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Network = good })
	p.expectReady(name)
}

func pausedInstance(p harness) {
	host, h := p.host(sim.Options{Windows: sim.WindowsOptions{Hostname: "paused"}})
	name := p.announce(h, func(i *v1alpha1.WindowsInstance) { i.Spec.Paused = true })
	p.expect(name, api.ConditionReady, api.ReasonPaused, "spec.paused")
	if n := host.SSH().Counters().Connections; n != 0 {
		p.t.Errorf("got %d connections to a paused host, want 0", n)
	}
	p.change(name, func(i *v1alpha1.WindowsInstance) { i.Spec.Paused = false })
	p.expectReady(name)
}

func featureNeedsRestart(p harness) {
	host, h := p.host(sim.Options{Windows: sim.WindowsOptions{
		Hostname: "no-containers", Features: map[string]wicdapi.FeatureState{"Containers": wicdapi.FeatureDisabled}, BootTime: 20 * time.Second, // long enough for the condition to be seen
	}})
	first := host.Windows().BootID()
	name := p.announce(h, nil)
	p.expect(name, api.ConditionRebootRequired, api.ReasonRebooting, "Containers")
	p.expectReady(name)
	if host.Windows().BootID() == first {
		p.t.Error("the host is Ready without a reboot")
	}
}

// change changes the spec of an instance.
func (p harness) change(name types.NamespacedName, change func(*v1alpha1.WindowsInstance)) {
	p.t.Helper()
	p.eventually("changing "+name.Name, func(ctx context.Context) string {
		i := p.instance(name)
		before := i.DeepCopy()
		change(i)
		if err := p.Client.Patch(ctx, i, client.MergeFrom(before)); err != nil {
			return err.Error()
		}
		return ""
	})
}
