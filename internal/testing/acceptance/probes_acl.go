package acceptance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// Names and numbers of what probe acl creates. hostPort is on the machine, podPort on the endpoint that stands for a pod.
const (
	aclEndpoint           = testPrefix + "-pod"
	podAddress            = "10.244.250.10"
	podMAC                = "0E-2A-0A-F4-FA-0A"
	testVIP               = "10.96.250.10"
	hostPort, podPort     = uint16(20010), uint16(20020)
	unusedPort            = uint16(20030)
	rulePriority          = uint16(1000)
	packetTimeout         = 3 * time.Second
	addressTimeout        = time.Minute
	maxConnectionsOfProbe = 200
)

// compartmentService lets this program use the network as a pod does, and write rules of which it is not known what Windows does with them.
type compartmentService interface {
	CreateNamespace(ctx context.Context) (id string, err error)
	// Attach returns the compartment of the namespace. In Listen and Dial, compartment 0 is the machine's own.
	Attach(ctx context.Context, endpoint, namespace string) (compartment uint32, err error)
	Listen(ctx context.Context, compartment uint32, at netip.AddrPort) (net.Listener, error)
	Dial(ctx context.Context, compartment uint32, to netip.AddrPort) (net.Conn, error)
	SetUncheckedACLs(ctx context.Context, endpoint string, acls []hns.ACL) error
}

// aclTrial is the state of one run of probe acl.
type aclTrial struct {
	*networkTrial
	pod         hns.Endpoint
	host        netip.Addr         // of the host's endpoint
	spaces      compartmentService // nil until packets can be sent
	compartment uint32
	// untried are the parts of the claim that could not be tried, and why.
	untried []string
	// sources are the addresses from which the machine's connections reach the pod.
	sources chan string
}

// tryACLs writes rules to an endpoint that no container uses, and sends packets to it and from it.
func tryACLs(ctx context.Context, s *session) (string, error) {
	n, err := newNetworkTrial(ctx, s)
	if err != nil {
		return "", err
	}
	if s.Host.EndpointACLs == nil {
		return "", untriedErrorf("the machine has no rules of endpoints")
	}
	a := &aclTrial{networkTrial: n, sources: make(chan string, maxConnectionsOfProbe)}
	seen, err := n.runTrial(ctx, "acl", a.try)
	if err == nil && len(a.untried) > 0 {
		return "", untriedErrorf("%s\n%s", strings.Join(a.untried, "\n"), seen)
	}
	return seen, err
}

func (a *aclTrial) try(ctx context.Context) {
	if !a.createNetworks(ctx) || !a.createHostEndpoint(ctx) {
		return
	}
	var err error
	address := netip.MustParseAddr(podAddress)
	a.pod, err = a.Host.Networks.CreateEndpoint(ctx, hns.Endpoint{Network: a.pods.ID, Name: aclEndpoint, Address: address, MAC: podMAC})
	if err != nil {
		a.fail("an endpoint like that of a pod was not created: %v", err)
		return
	}
	a.pod.Address = address
	a.tryEcho(ctx)
	if err = a.openCompartment(ctx); err == nil {
		err = a.tryPackets(ctx)
	}
	if err != nil {
		a.untried = append(a.untried, fmt.Sprintf("rules were written and read back, and packets were not seen: %v", err))
	}
}

// writtenACLs are rules of all forms that the product writes.
func writtenACLs() []hns.ACL {
	prefixes := []netip.Prefix{netip.MustParsePrefix("198.51.100.0/25"), netip.MustParsePrefix("203.0.113.7/32"), netip.MustParsePrefix("128.0.0.0/1")}
	ports := []hns.PortRange{{First: 80, Last: 80}, {First: 8000, Last: 8010}}
	return []hns.ACL{
		{Action: hns.Allow, Direction: hns.In, Remote: prefixes[:1], Priority: hns.MinACLPriority},
		{Action: hns.Allow, Direction: hns.In, Protocol: hns.TCP, Remote: prefixes, LocalPorts: ports, Priority: rulePriority},
		{Action: hns.Allow, Direction: hns.In, Protocol: hns.UDP, LocalPorts: ports[:1], Priority: rulePriority},
		{Action: hns.Block, Direction: hns.In, Priority: hns.MaxACLPriority},
		{Action: hns.Allow, Direction: hns.Out, Protocol: hns.UDP, Remote: prefixes[1:2], RemotePorts: ports, Priority: rulePriority},
		{Action: hns.Block, Direction: hns.Out, Priority: hns.MaxACLPriority},
	}
}

// tryEcho checks that the service returns rules as written, and that they can be removed.
func (a *aclTrial) tryEcho(ctx context.Context) {
	for _, step := range []struct {
		what, fact string
		acls       []hns.ACL
	}{
		{"rules", "acl-written", writtenACLs()},
		{"rules for SCTP", "acl-sctp", append(writtenACLs(), hns.ACL{
			Action: hns.Allow, Direction: hns.In, Protocol: hns.SCTP, LocalPorts: []hns.PortRange{{First: 80, Last: 80}}, Priority: rulePriority,
		})},
		{"rules for 4,000 addresses", "", manyAddresses()},
		{"no rules", "acl-removed", nil},
	} {
		began := time.Now()
		if err := a.Host.EndpointACLs.SetACLs(ctx, a.pod.ID, step.acls); err != nil {
			a.fail("writing %s: %v", step.what, err)
			continue
		}
		took := time.Since(began)
		if step.fact != "" {
			a.recordDocuments(ctx, step.fact)
		}
		all, err := a.Host.EndpointACLs.ACLs(ctx)
		echo := all[a.pod.ID]
		switch {
		case err != nil:
			a.fail("reading %s: %v", step.what, err)
		case !hns.SameACLs(echo, step.acls):
			a.fail("%s are returned as %d other rules: %.2000s", step.what, len(echo), fmt.Sprintf("%+v", echo))
		default:
			a.note("%s are returned as written; writing took %.2f s", step.what, took.Seconds())
		}
	}
}

func manyAddresses() []hns.ACL {
	acl := hns.ACL{Action: hns.Allow, Direction: hns.Out, Priority: rulePriority}
	for i := range hns.MaxACLEntries {
		acl.Remote = append(acl.Remote, netip.PrefixFrom(netip.AddrFrom4([4]byte{203, 0, byte(i / 125), byte(2 * (i % 125))}), 32))
	}
	return []hns.ACL{acl}
}

// openCompartment gives the endpoint a namespace, and lets programs of the machine be reached at the ports of the probe.
func (a *aclTrial) openCompartment(ctx context.Context) error {
	spaces, canEnter := a.Host.Networks.(compartmentService)
	if !canEnter {
		return errors.New("this machine has no network compartments")
	}
	objects, err := a.Host.Networks.ReadObjects(ctx, []string{a.endpoint.ID}) // lists can lack addresses
	if err != nil {
		return err
	}
	for _, e := range objects.Endpoints {
		if e.ID == a.endpoint.ID {
			a.host = e.Address
		}
	}
	if !a.host.IsValid() {
		return errors.New("the host's endpoint has no address")
	}
	rules := []desired.FirewallRule{{Name: testPrefix + "-acl", Protocol: desired.TCP, Ports: []uint16{hostPort, podPort}, From: []string{testSubnet, a.address.String() + "/32"}}}
	err = a.change(change{kindRules, hostapi.FirewallGroup}, func() error {
		_, err := a.Host.Firewall.Set(ctx, rules)
		return err
	})
	if err != nil && !errors.Is(err, hostapi.ErrNoFirewall) {
		return err
	}
	namespace, err := spaces.CreateNamespace(ctx)
	if err != nil {
		return err
	}
	return a.change(change{kindNamespace, strings.ToLower(namespace)}, func() (err error) {
		a.compartment, err = spaces.Attach(ctx, a.pod.ID, namespace)
		a.spaces = spaces
		return err
	})
}
