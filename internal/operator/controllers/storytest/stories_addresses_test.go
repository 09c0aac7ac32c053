package storytest

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/instance"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/remote"
)

// counted counts dials by address. Names are resolved as remote.Dial does.
func (s *story) counted() map[string]int {
	dialed := map[string]int{}
	s.dialer = func(ctx context.Context, t remote.Target, o remote.Options) (instance.SSHHost, error) {
		if _, err := netip.ParseAddr(t.Address); err != nil {
			ips, err := o.Lookup(ctx, "ip", t.Address)
			if err != nil {
				return nil, &remote.Error{Kind: remote.Unresolvable, Host: t.Address, Err: err}
			}
			t.Address = ips[0].String()
		}
		dialed[t.Address]++
		return s.dial(ctx, t, o)
	}
	return dialed
}

// A user-provided address cannot make the operator log in to the cluster's own machines.
func TestReservedInstanceAddressIsNotDialed(t *testing.T) {
	for address, reason := range map[string]string{
		"127.0.0.1": "loopback", "169.254.169.254": "metadata", "10.96.0.1": "Services", "10.3.0.5": "API server", "10.0.9.9": "Node linux-1",
		"self.example": "127.0.0.1 is a loopback address", "two.example": "10.96.0.1 is in the cluster's range",
		"win-1": "has no dot", "win-1.shop.svc.cluster.local": "the cluster's own DNS",
	} {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStory(t, 1, v1alpha1.RolloutSpec{})
				s.must(s.client.Create(s.ctx, controllertest.Node("linux-1", "10.0.9.9")))
				dialed := s.counted()
				s.lookup = func(_ context.Context, _, name string) ([]netip.Addr, error) {
					all := map[string][]netip.Addr{
						"self.example.": {netip.MustParseAddr("127.0.0.1")},
						"two.example.":  {netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.96.0.1")},
					}
					return all[name], nil
				}
				s.hosts[0].address = address
				s.announce(s.hosts[0])
				s.pass(5 * time.Minute)
				i := s.instance("win-1")
				ready := kube.Condition(i, api.ConditionReady)
				if ready.Reason != api.ReasonAddressInvalid || !strings.Contains(ready.Message, reason) {
					t.Errorf("Ready is %+v, want AddressInvalid containing %q", ready, reason)
				}
				if !meta.IsStatusConditionTrue(i.Status.Conditions, api.ConditionStalled) {
					t.Error("Stalled is not set, although only the user can fix this")
				}
				if len(dialed) > 0 {
					t.Errorf("the operator connected to %v", dialed)
				}
			})
		})
	}
}

// The operator does not connect to unknown hosts before it knows the cluster's own addresses.
func TestNoNewHostIsDialedBeforeClusterIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, 1, v1alpha1.RolloutSpec{})
		s.live = interceptor.NewClient(s.client.(client.WithWatch), interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, into client.ObjectList, opts ...client.ListOption) error {
				if _, ok := into.(*networkingv1.ServiceCIDRList); ok {
					return errors.New("forbidden")
				}
				return c.List(ctx, into, opts...)
			},
		})
		s.startOperator()
		dialed := s.counted()
		s.announce(s.hosts[0])
		s.pass(time.Minute)
		if ready := kube.Condition(s.instance("win-1"), api.ConditionReady); ready.Reason != api.ReasonClusterUnknown || len(dialed) > 0 {
			t.Errorf("Ready is %+v, dialed was %v", ready, dialed)
		}
	})
}

// A joined node is still reached after another Node claims its address.
func TestKnownHostIsDialedDespiteNodeClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, 1, v1alpha1.RolloutSpec{})
		s.joined()
		s.must(s.client.Create(s.ctx, controllertest.Node("linux-1", s.hosts[0].address)))
		dialed := s.counted()
		s.hosts[0].version = ""
		s.until("the node does not work", time.Hour, func() bool { return s.ready() == 0 })
		s.until("the host is a node again", time.Hour, func() bool { return s.ready() == 1 })
		if dialed[s.hosts[0].address] == 0 {
			t.Error("the host returned without help, so the test proves nothing")
		}
	})
}

// aService returns the Service of a tenant who can only create pods and Services in one namespace.
func aService(address string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "web"}, Spec: corev1.ServiceSpec{ExternalIPs: []string{"192.0.2.1", address}}}
}

// If a Service has the address of a new host, its pods could answer in place of the host, so the operator does not connect.
func TestServiceIsNotMistakenForNewHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, 1, v1alpha1.RolloutSpec{})
		service, dialed := aService(s.hosts[0].address), s.counted()
		s.must(s.client.Create(s.ctx, service))
		s.announce(s.hosts[0])
		s.pass(5 * time.Minute)
		ready := kube.Condition(s.instance("win-1"), api.ConditionReady)
		if ready.Reason != api.ReasonAddressInvalid || !strings.Contains(ready.Message, "spec.externalIPs of Service tenant/web") || len(dialed) > 0 {
			t.Errorf("Ready is %+v, dialed was %v", ready, dialed)
		}
		s.must(s.client.Delete(s.ctx, service))
		s.until("the host is a node", time.Hour, func() bool { return s.ready() == 1 })
	})
}

// A Service created while the operator connects to a new host may be what answered, so it gets no token.
func TestServiceCreatedDuringJoinGetsNoToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, 1, v1alpha1.RolloutSpec{})
		service, h := aService(s.hosts[0].address), s.hosts[0]
		s.dialer = func(ctx context.Context, t remote.Target, o remote.Options) (instance.SSHHost, error) {
			if err := s.client.Create(ctx, service.DeepCopy()); client.IgnoreAlreadyExists(err) != nil {
				return nil, err
			}
			return s.dial(ctx, t, o)
		}
		s.announce(h)
		s.pass(20 * time.Minute)
		i := s.instance("win-1")
		ready := kube.Condition(i, api.ConditionReady)
		if h.token != "" || i.Status.BootstrapCredentialID != "" || !strings.Contains(ready.Message, "Service tenant/web") {
			t.Errorf("the host has token %q; Ready is %+v", h.token, ready)
		}
		s.dialer = s.dial
		s.must(s.client.Delete(s.ctx, service))
		s.until("the host is a node", time.Hour, func() bool { return s.ready() == 1 })
	})
}

// A tenant with Services can neither take a node out of management nor prevent a host with a known key from joining: the pods lack the key.
func TestServiceClaimDoesNotBlockKnownHost(t *testing.T) {
	for name, known := range map[string]func(s *story) string{
		"a node": func(s *story) string {
			s.joined()
			return ""
		},
		"a host whose key is written down": func(s *story) string { return remote.FormatHostKey(s.hosts[0].key) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStory(t, 1, v1alpha1.RolloutSpec{})
				key := known(s)
				s.must(s.client.Create(s.ctx, aService(s.hosts[0].address)))
				dialed := s.counted()
				if key != "" {
					i := controllertest.Instance("win-1", "", "", s.hosts[0].address)
					i.Generation, i.Spec.HostKey = 1, key
					s.must(s.client.Create(s.ctx, i))
				} else {
					s.hosts[0].version = ""
					s.until("the node does not work", time.Hour, func() bool { return s.ready() == 0 })
				}
				s.until("the host is a node", time.Hour, func() bool { return s.ready() == 1 })
				if dialed[s.hosts[0].address] == 0 || !strings.Contains(strings.Join(s.lines, "\n"), "win-1: AddressDisputed: the host's address "+s.hosts[0].address+" is also in spec.externalIPs of Service tenant/web") {
					t.Errorf("dialed was %v; events are\n%s", dialed, strings.Join(s.lines, "\n"))
				}
			})
		})
	}
}

// A host's own claims cannot make the operator connect to the cluster's own machines either.
func TestClaimedClusterAddressIsNotDialed(t *testing.T) {
	for _, address := range []string{"10.96.0.1", "10.3.0.5", "10.0.9.9"} {
		t.Run(address, func(t *testing.T) {
			hostile(t, 1, func(s *story, liar *storyHost) {
				s.must(s.client.Create(s.ctx, controllertest.Node("linux-1", "10.0.9.9")))
				dialed := s.counted()
				liar.claims("win-1", address)
				s.announce(liar)
				s.pass(5 * time.Minute)
				if dialed[address] > 0 || liar.token != "" {
					t.Errorf("a host that reports address %s: the operator connected there %d times, and sent token %q", address, dialed[address], liar.token)
				}
				if r := s.supported("win-1"); r != api.ReasonAddressNotProven {
					t.Errorf("a host that reports address %s: Supported has reason %q, want AddressNotProven", address, r)
				}
			})
		})
	}
}
