package storytest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/source"
	"github.com/windows-machine-config/wmco/internal/operator/csr"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// hostile runs a story in which the first host may lie to the operator and all others are honest.
func hostile(t *testing.T, hosts int, run func(s *story, liar *storyHost)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, hosts, v1alpha1.RolloutSpec{})
		run(s, s.hosts[0])
	})
}

// claims makes the host claim a name and an address.
func (h *storyHost) claims(name, address string) {
	h.changeFacts = func(f *wicdapi.HostFacts) {
		f.Hostname = name
		f.Interfaces = []wicdapi.Interface{{Name: "Ethernet", Addresses: []netip.Prefix{netip.MustParsePrefix(address + "/24")}, DefaultRoute: true}}
	}
}

// identities returns those of the names for which the operator would approve a kubelet's request with the host's last token.
func (h *storyHost) identities(names ...string) (approved []string) {
	s := h.story
	s.t.Helper()
	known, err := s.certificates.Known(s.ctx, "")
	s.must(err)
	id := tokenID(h.token)
	for _, name := range names {
		request := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "csr-" + name}, Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    controllertest.CertificateRequest(s.t, "system:node:"+name),
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
			Username:   "system:serviceaccount:ns:" + api.BootstrapServiceAccount,
			Extra:      map[string]certificatesv1.ExtraValue{"authentication.kubernetes.io/credential-id": {"JTI=" + id}},
		}}
		if csr.Decide(request, known).Verdict == csr.Approve {
			approved = append(approved, name)
		}
	}
	return approved
}

// supported returns the reason of condition Supported.
func (s *story) supported(host string) string {
	i := s.instance(host)
	return kube.Condition(i, api.ConditionSupported).Reason
}

// A host with a token cannot become further nodes by changing its host name.
func TestHostCannotCollectNames(t *testing.T) {
	hostile(t, 1, func(s *story, liar *storyHost) {
		names := []string{"worker-1", "worker-2", "master-3", "web-1"}
		liar.claims(names[0], liar.address)
		s.announce(liar)
		var gained []string
		for _, name := range names {
			liar.claims(name, liar.address)
			s.pass(3 * time.Minute)
			gained = append(gained, liar.identities(names...)...)
		}
		slices.Sort(gained)
		if gained = slices.Compact(gained); !slices.Equal(gained, names[:1]) {
			t.Errorf("the host can become nodes %q, want %q", gained, names[:1])
		}
		if r := s.supported("win-1"); r != api.ReasonHostnameChanged {
			t.Errorf("Supported has reason %q, want HostnameChanged", r)
		}
		held := slices.DeleteFunc(names, func(name string) bool {
			_, free := s.names.Claim(name, controllertest.Key("another"))
			return free
		})
		if len(held) != 1 {
			t.Errorf("the names %q are held for one host", held)
		}
	})
}

// A user renames a host and accepts the new name: the Node of the old name is removed.
func TestUserAcceptsRenamedHost(t *testing.T) {
	hostile(t, 1, func(s *story, host *storyHost) {
		s.joined()
		host.name, host.version = "web-1", ""
		s.until("the operator reports it", time.Hour, func() bool { return s.supported("win-1") == api.ReasonHostnameChanged })
		s.annotate("win-1", api.AnnotationAcceptHostname, "web-1")
		s.until("the node has its new name", time.Hour, func() bool { return s.ready() == 1 && s.nodes()[0].Name == "web-1" })
		if n := len(s.nodes()); n != 1 {
			t.Errorf("%d Nodes, want the new one only", n)
		}
	})
}

// A working node without an instance, such as one of the original operator before its adoption, cannot be taken over by another host that claims its
// name and address.
func TestNodeIsNotTakenOverWithoutProof(t *testing.T) {
	hostile(t, 2, func(s *story, liar *storyHost) {
		victim := s.hosts[1]
		victim.version, victim.others = oldVersion, true
		victim.register()
		liar.claims(victim.name, victim.address)
		s.announce(liar)
		s.pass(10 * time.Minute)
		if gained := liar.identities(victim.name); gained != nil || liar.token != "" {
			t.Errorf("the host can become %q, and was handed %q", gained, liar.token)
		}
		if r := s.supported("win-1"); r != api.ReasonAddressNotProven {
			t.Errorf("Supported has reason %q, want AddressNotProven", r)
		}
		liar.claims(victim.name, liar.address) // the name alone
		s.pass(10 * time.Minute)
		if gained := liar.identities(victim.name); gained != nil || s.supported("win-1") != api.ReasonHostnameConflict {
			t.Errorf("the host can become %q; Supported has reason %q, want HostnameConflict", gained, s.supported("win-1"))
		}
		if m := kube.Condition(s.instance("win-1"), api.ConditionSupported).Message; !strings.Contains(m, "is already used by Node win-2 ("+victim.address+");") {
			t.Errorf("got message %q", m)
		}
		s.must(s.client.Delete(s.ctx, s.instance("win-1")))
		s.until("the malicious host has left", time.Hour, func() bool { return len(s.allInstances()) == 0 })
		if s.node(victim.name).Labels[corev1.LabelOSStable] != "windows" {
			t.Error("the node is another one")
		}
	})
}

// The name of a node still belongs to its instance while that is being deleted, its Node is gone and its host does not answer.
func TestLeavingNodeKeepsName(t *testing.T) {
	hostile(t, 2, func(s *story, liar *storyHost) {
		victim := s.hosts[1]
		s.announce(victim)
		s.until("the victim is a node", time.Hour, func() bool { return s.ready() == 1 })
		victim.off = true
		s.must(s.client.Delete(s.ctx, s.instance(victim.name)))
		s.must(s.client.Delete(s.ctx, s.node(victim.name)))
		s.startOperator() // with no state in memory
		liar.claims(victim.name, liar.address)
		s.announce(liar)
		s.pass(5 * time.Minute)
		if gained := liar.identities(victim.name); gained != nil || liar.token != "" {
			t.Errorf("the host can become %q", gained)
		}
		if r := s.supported("win-1"); r != api.ReasonHostnameConflict {
			t.Errorf("Supported has reason %q, want HostnameConflict", r)
		}
	})
}

// A host has two interfaces, and its node uses another address than the announced one: the host must present its key there too.
func TestNodeAddressMayDifferFromAnnouncedOne(t *testing.T) {
	hostile(t, 1, func(s *story, host *storyHost) {
		other := *host
		other.address = "10.7.7.7"
		s.hosts = append(s.hosts, &other) // the same machine, at its other address
		host.node = other.address
		s.announce(host)
		s.until("the host is configured", time.Hour, func() bool {
			return strings.HasPrefix(kube.Condition(s.instance("win-1"), api.ConditionConfigured).Reason, "Configured")
		})
		if ip := s.instance("win-1").Status.NodeIP; ip != other.address {
			t.Errorf("the node's address is %s, want %s", ip, other.address)
		}
	})
}

// A host that sends the longest possible values cannot make the stored status large or invalid.
func TestHostFactsAreTruncated(t *testing.T) {
	hostile(t, 1, func(s *story, liar *storyHost) {
		long := strings.Repeat("long ", 5000) // two of them fit into one line of an answer
		for claim, lie := range map[string]func(*wicdapi.HostFacts){
			"boot ID":   func(f *wicdapi.HostFacts) { f.BootID = long },
			"name":      func(f *wicdapi.HostFacts) { f.Hostname = long },
			"product":   func(f *wicdapi.HostFacts) { f.Product, f.Installation = long, long },
			"processor": func(f *wicdapi.HostFacts) { f.Architecture = long },
			"addresses": func(f *wicdapi.HostFacts) { f.Interfaces = slices.Repeat([]wicdapi.Interface{{Name: long[:500]}}, 100) },
		} {
			liar.changeFacts = lie
			s.announce(liar)
			s.pass(5 * time.Minute)
			i := s.instance("win-1")
			if text, err := json.Marshal(i); err != nil || len(text) > 24<<10 {
				t.Errorf("%s: the instance has %d bytes (%v)", claim, len(text), err)
			}
			if kube.Condition(i, api.ConditionReady).Reason == "" {
				t.Errorf("%s: no text of the host is reported", claim)
			}
			s.must(s.client.Delete(s.ctx, i))
			s.until("it is gone", time.Hour, func() bool { return len(s.allInstances()) == 0 })
		}
	})
}

// A host that restarts in every join gets tokens with back-off, not every few seconds.
func TestRepeatedRestartsBackOff(t *testing.T) {
	for _, noQuirks := range []bool{true, false} {
		t.Run(fmt.Sprintf("without quirks: %v", noQuirks), func(t *testing.T) {
			hostile(t, 1, func(s *story, liar *storyHost) {
				if noQuirks {
					s.withoutQuirks("its first joins are counted, before which no other made the operator wait")
				}
				liar.restarts = true
				s.announce(liar)
				s.pass(time.Minute)
				if noQuirks && liar.joins < 3 {
					s.t.Errorf("in the first minute, the host was joined %d times, want 3: one that has to restart twice should not wait", liar.joins)
				}
				s.until("it restarts", time.Hour, func() bool { return liar.joins > 0 })
				before := liar.joins
				s.pass(time.Hour)
				if n := liar.joins - before; n < 10 || n > 50 {
					s.t.Errorf("in an hour, the host was joined %d times, want one time in two minutes", n)
				}
				liar.restarts = false
				s.until("the host is a node", time.Hour, func() bool { return s.ready() == 1 })
			})
		})
	}
}

// announcedMachines are Machines that list the names of their hosts.
type announcedMachines []source.Announcement

func (a announcedMachines) Announced(context.Context) []source.Announcement { return a }
func (a announcedMachines) HasSynced() bool                                 { return true }
func (a announcedMachines) Named(context.Context, string, string) string    { return "" }

// Another host cannot take the name of a cloud's machine that has not joined yet.
func TestMachineNameIsReserved(t *testing.T) {
	hostile(t, 2, func(s *story, liar *storyHost) {
		const name = "ip-10-0-0-9.ec2.internal"
		s.announcers = []source.Announcer{announcedMachines{{Object: "Machine ns/worker-1", ID: "ns/worker-1", Address: netip.MustParseAddr("10.0.0.9"), Names: []string{name, "win-2"}}}}
		s.startOperator()
		liar.claims("win-2", liar.address)
		s.announce(liar)
		s.pass(5 * time.Minute)
		if r := s.supported("win-1"); r != api.ReasonHostnameConflict || liar.token != "" {
			t.Errorf("Supported has reason %q, want HostnameConflict; it was handed %q", r, liar.token)
		}
		honest := s.hosts[1]
		i := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "worker-1", Generation: 1, Annotations: map[string]string{api.AnnotationMachine: "ns/worker-1"}}}
		i.Spec.Address, i.Spec.Username = honest.address, "Administrator"
		s.must(s.client.Create(s.ctx, i))
		s.until("the Machine's host is a node", time.Hour, func() bool { return s.ready() == 1 })
	})
}

// tokenID returns the ID of a token, its claim jti.
func tokenID(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	var claims struct {
		ID string `json:"jti"`
	}
	text, _ := base64.RawURLEncoding.DecodeString(parts[1])
	_ = json.Unmarshal(text, &claims)
	return claims.ID
}
