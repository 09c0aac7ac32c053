package storytest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/observe/advice"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/admission"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/csrapproval"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/instance"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/remote"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// mistake is a common mistake in the first hour of a cluster, before its first host is a node.
type mistake struct {
	make func(*story)
	// reason is the reason in the instance's condition, and advised a part of the remedy.
	reason, advised string
	// remedy applies the remedy.
	remedy func(*story)
}

// firstMistakes returns the mistakes that an instance reports.
func firstMistakes() map[string]mistake {
	return map[string]mistake{
		"a wrong key": {func(s *story) { s.hosts[0].keys = []string{s.line(7)} }, api.ReasonAuthenticationFailed, "administrators_authorized_keys",
			func(s *story) { s.hosts[0].keys = []string{s.line(0)} }},
		"a wrong user": {func(s *story) { s.acceptOnly("Admin") }, api.ReasonAuthenticationFailed, "correct the user name",
			func(s *story) { s.edit("win-1", func(i *v1alpha1.WindowsInstance) { i.Spec.Username = "Admin" }) }},
		"a firewall": {func(s *story) { s.dialer = drops }, api.ReasonConnectionTimeout, "firewalls between the operator and the host's SSH port",
			func(s *story) { s.dialer = s.dial }},
		"a full disk": {func(s *story) { s.hosts[0].changeFacts = func(f *wicdapi.HostFacts) { f.FreeBytes = 1 << 30 } }, api.ReasonDiskTooSmall, "Free disk space on drive C:",
			func(s *story) { s.hosts[0].changeFacts = nil }},
		"a wrong clock": {func(s *story) {
			s.hosts[0].changeFacts = func(f *wicdapi.HostFacts) { f.Clock = f.Clock.Add(-time.Hour) }
		}, api.ReasonClockSkewed, "w32tm /resync",
			func(s *story) { s.hosts[0].changeFacts = nil }},
		"an agent on the kubelet's port": {func(s *story) {
			s.hosts[0].changeFacts = func(f *wicdapi.HostFacts) {
				f.Listeners = []wicdapi.Listener{{Port: 10250, Address: netip.IPv6Unspecified(), PID: 812, Program: `C:\Program Files\agent\agent.exe`}}
			}
		}, api.ReasonPortInUse, "listen on another port", func(s *story) { s.hosts[0].changeFacts = nil }},
		"a containerd of Docker": {func(s *story) { s.hosts[0].changeFacts = func(f *wicdapi.HostFacts) { f.RuntimePipe = true } }, api.ReasonContainerRuntimeConflict,
			"Remove the other container runtime", func(s *story) { s.hosts[0].changeFacts = nil }},
		"an API server that only Linux nodes know": {func(s *story) {
			s.hosts[0].isolated, s.hosts[0].reachable = "resolving lb-apiserver.kubernetes.local: no such host", "10.3.0.99"
		}, api.ReasonAPIServerUnreachable, "set spec.cluster.apiServer of WindowsConfig",
			func(s *story) {
				s.configure(func(c *v1alpha1.WindowsConfigSpec) { c.Cluster.APIServer = "https://10.3.0.99:6443" })
			}},
		"a DNS that nothing tells": {func(s *story) {
			s.must(s.client.Delete(s.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kubelet-config"}}))
		}, api.ReasonClusterDNSUnknown, "Set spec.network.dns.servers of WindowsConfig",
			func(s *story) {
				s.configure(func(c *v1alpha1.WindowsConfigSpec) { c.Network.DNS.Servers = []string{"10.96.0.53"} })
			}},
	}
}

// acceptOnly makes hosts accept logins of one user only.
func (s *story) acceptOnly(user string) {
	s.dialer = func(ctx context.Context, t remote.Target, o remote.Options) (instance.SSHHost, error) {
		if t.User != user {
			return nil, &remote.Error{Kind: remote.Authentication, Host: t.Address, Err: fmt.Errorf("it refuses user %q", t.User)}
		}
		return s.dial(ctx, t, o)
	}
}

// drops behaves like a firewall that drops packets.
func drops(_ context.Context, t remote.Target, _ remote.Options) (instance.SSHHost, error) {
	return nil, &remote.Error{Kind: remote.Timeout, Host: t.Address, Err: errors.New("i/o timeout")}
}

// edit changes an instance as a user does.
func (s *story) edit(name string, change func(*v1alpha1.WindowsInstance)) {
	i := s.instance(name)
	change(i)
	i.Generation++
	s.must(s.client.Update(s.ctx, i))
}

// TestRemediesFixCommonFirstMistakes: each mistake is reported with a reason, and the host becomes a Ready node after only the advised remedy.
func TestRemediesFixCommonFirstMistakes(t *testing.T) {
	for name, m := range firstMistakes() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStory(t, 1, v1alpha1.RolloutSpec{})
				m.make(s)
				s.announce(s.hosts...)
				ready := func() metav1.Condition { return kube.Condition(s.instance("win-1"), api.ConditionReady) }
				s.until("the instance reports the mistake", time.Hour, func() bool { return ready().Reason == m.reason })
				s.mustAdvise(m.reason, m.advised)
				if s.pass(10 * time.Minute); s.ready() != 0 || ready().Reason != m.reason {
					t.Errorf("%d nodes are Ready, and the reason is %s: %s", s.ready(), ready().Reason, ready().Message)
				}
				m.remedy(s)
				s.until("the node is Ready", time.Hour, func() bool { return s.ready() == 1 && ready().Reason == api.ReasonReady })
			})
		})
	}
}

// mustAdvise checks that the advice for a reason contains part and links to a page.
func (s *story) mustAdvise(reason, part string) {
	s.t.Helper()
	if a := advice.All().For(reason); !strings.Contains(a.Remedy, part) || a.Page == "" {
		s.t.Errorf("the remedy for %s is %q (page %q), want it to contain %q", reason, a.Remedy, a.Page, part)
	}
}

// TestCertificateIsApprovedAfterAddressIsListed: a kubelet requests a certificate with an address that only its cloud knows. The request stays
// pending, with an event that explains what to do.
func TestCertificateIsApprovedAfterAddressIsListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, 1, v1alpha1.RolloutSpec{})
		s.joined()
		const address = "203.0.113.9"
		isApproved := false
		approving := interceptor.NewClient(s.client.(client.WithWatch), interceptor.Funcs{
			SubResourceUpdate: func(_ context.Context, _ client.Client, _ string, o client.Object, _ ...client.SubResourceUpdateOption) error {
				isApproved = len(o.(*certificatesv1.CertificateSigningRequest).Status.Conditions) == 1
				return nil
			},
		})
		log := kube.NewEvents(storyEvents{s})
		controller := csrapproval.New(csrapproval.Options{
			Client: approving, Live: s.client, Events: log, Namespace: "ns", Reserved: s.sources.Reserved, Policies: admission.New(s.client, log, nil),
			Settings: s.store, Registry: prometheus.NewRegistry(),
		})
		kubelet := kubeletOf("win-1")
		request := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "csr-1", UID: "csr-1"}}
		request.Spec = servingRequest("win-1", "win-1", s.hosts[0].address, address)
		request.Spec.Username, request.Spec.Groups = kubelet.user, kubelet.groups
		s.must(s.client.Create(s.ctx, request))
		result, err := controller.Reconcile(s.ctx, request)
		s.must(err)
		reported := strings.Join(s.lines, "\n")
		if isApproved || result.RequeueAfter == 0 || !strings.Contains(reported, api.EventCertificateRefused) || !strings.Contains(reported, "add it to spec.additionalAddresses of the WindowsInstance") {
			t.Errorf("approved: %v; next check after %s; events: %s", isApproved, result.RequeueAfter, reported)
		}
		s.mustAdvise(api.EventCertificateRefused, "why it breaks the rule in the message")
		s.edit("win-1", func(i *v1alpha1.WindowsInstance) { i.Spec.AdditionalAddresses = []string{address} })
		_, err = controller.Reconcile(s.ctx, request)
		s.must(err)
		if !isApproved || s.ready() != 1 {
			t.Errorf("approved: %v, and %d nodes are Ready\n%s", isApproved, s.ready(), strings.Join(s.lines, "\n"))
		}
	})
}
