package acceptance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// outcome is what happens to a connection.
type outcome bool

const (
	passes  outcome = true
	blocked outcome = false
)

func (o outcome) String() string {
	if o {
		return "pass"
	}
	return "are blocked"
}

// aclCase are rules of the pod's endpoint, and what the product assumes that they do.
type aclCase struct {
	what string
	acls []hns.ACL
	// in and out are the expected outcomes of connections of the machine to the pod, and of the pod to the machine; nil if the product does not
	// depend on it.
	in, out *outcome
}

// rule returns a rule for TCP with a priority. Without a port, it is for all.
func rule(action hns.Action, direction hns.Direction, priority, port uint16, remote ...netip.Addr) hns.ACL {
	acl := hns.ACL{Action: action, Direction: direction, Priority: priority}
	for _, r := range remote {
		acl.Remote = append(acl.Remote, netip.PrefixFrom(r, r.BitLen()))
	}
	if port == 0 {
		return acl
	}
	ports := []hns.PortRange{{First: port, Last: port}}
	if acl.Protocol = hns.TCP; direction == hns.In {
		acl.LocalPorts = ports
	} else {
		acl.RemotePorts = ports
	}
	return acl
}

// cases are the questions about rules that one machine can answer.
func (a *aclTrial) cases() []aclCase {
	stranger := netip.MustParseAddr("203.0.113.7")
	allow, block := hns.Allow, hns.Block
	everything := func(d hns.Direction) hns.ACL { return rule(allow, d, hns.MaxACLPriority, 0) }
	nothing := func(d hns.Direction) hns.ACL { return rule(block, d, hns.MaxACLPriority, 0) }
	return []aclCase{
		{"with all allowed explicitly", []hns.ACL{everything(hns.In), everything(hns.Out)}, new(passes), new(passes)},
		{"with nothing allowed", []hns.ACL{nothing(hns.In), nothing(hns.Out)}, new(blocked), new(blocked)},
		{"with only the pod's port allowed from the machine", []hns.ACL{rule(allow, hns.In, rulePriority, podPort, a.host), nothing(hns.In), nothing(hns.Out)},
			new(passes), new(blocked)},
		{"with only another source allowed", []hns.ACL{rule(allow, hns.In, rulePriority, podPort, stranger), nothing(hns.In), everything(hns.Out)},
			new(blocked), new(passes)},
		{"with only another port allowed", []hns.ACL{rule(allow, hns.In, rulePriority, unusedPort), nothing(hns.In), everything(hns.Out)},
			new(blocked), new(passes)},
		{"with only the machine's port allowed to the pod", []hns.ACL{nothing(hns.In), rule(allow, hns.Out, rulePriority, hostPort, a.host), nothing(hns.Out)},
			new(blocked), new(passes)},
		{"with a block of a lower priority number before an allow", []hns.ACL{
			rule(block, hns.In, rulePriority, podPort), everything(hns.In), rule(block, hns.Out, rulePriority, hostPort), everything(hns.Out),
		}, new(blocked), new(blocked)},
		{"with the lowest and the highest priority that the product writes", []hns.ACL{
			rule(allow, hns.In, hns.MinACLPriority, podPort), nothing(hns.In), rule(allow, hns.Out, hns.MinACLPriority, hostPort), nothing(hns.Out),
		}, new(passes), new(passes)},
		{"with a rule for one direction only, which allows", []hns.ACL{everything(hns.In)}, nil, nil},
		{"with a rule for one direction only, which allows another port", []hns.ACL{rule(allow, hns.In, rulePriority, unusedPort)}, nil, nil},
		{"with allow before block at one priority", []hns.ACL{
			rule(allow, hns.In, rulePriority, podPort), rule(block, hns.In, rulePriority, podPort), everything(hns.Out),
		}, nil, nil},
		{"with block before allow at one priority", []hns.ACL{
			rule(block, hns.In, rulePriority, podPort), rule(allow, hns.In, rulePriority, podPort), everything(hns.Out),
		}, nil, nil},
	}
}

// tryPackets opens connections between the machine and the pod with each list of rules. An error means that none pass, whatever the rules are.
func (a *aclTrial) tryPackets(ctx context.Context) error {
	stop, err := a.serve(ctx)
	defer stop()
	if err != nil {
		return err
	}
	in, out := a.connect(ctx, hns.In), a.connect(ctx, hns.Out)
	a.note("without rules, connections to the pod %s, and those from it %s", outcome(in == nil), outcome(out == nil))
	if in != nil || out != nil { // rules also let Windows Firewall pass what they allow
		if err := a.spaces.SetUncheckedACLs(ctx, a.pod.ID, a.cases()[0].acls); err != nil {
			return err
		}
		if again := errors.Join(a.connect(ctx, hns.In), a.connect(ctx, hns.Out)); again != nil {
			return fmt.Errorf("without rules and with all allowed, connections fail: %w", again)
		}
	}
	for _, c := range a.cases() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		a.tryCase(ctx, c)
	}
	a.tryOpenConnection(ctx)
	a.tryVIP(ctx)
	if err := a.Host.EndpointACLs.SetACLs(ctx, a.pod.ID, nil); err != nil {
		a.fail("removing all rules: %v", err)
	} else if inAfter, outAfter := a.connect(ctx, hns.In), a.connect(ctx, hns.Out); (inAfter == nil) != (in == nil) || (outAfter == nil) != (out == nil) {
		a.fail("after all rules were removed, connections are not as before: to the pod %v, from it %v", inAfter, outAfter)
	}
	a.noteSources()
	return nil
}

func (a *aclTrial) tryCase(ctx context.Context, c aclCase) {
	if err := a.spaces.SetUncheckedACLs(ctx, a.pod.ID, c.acls); err != nil {
		report := a.fail
		if c.in == nil {
			report = a.note
		}
		report("%s, the rules are refused: %v", c.what, err)
		return
	}
	for _, d := range []struct {
		direction hns.Direction
		what      string
		want      *outcome
	}{{hns.In, "connections to the pod", c.in}, {hns.Out, "connections from the pod", c.out}} {
		got := outcome(a.connect(ctx, d.direction) == nil)
		if d.want != nil && got != *d.want {
			a.fail("%s, %s %s, and should not", c.what, d.what, got)
		} else {
			a.note("%s, %s %s", c.what, d.what, got)
		}
	}
}

// serve answers connections on the machine and in the pod.
func (a *aclTrial) serve(ctx context.Context) (stop func(), err error) {
	var listeners []net.Listener
	stop = func() {
		for _, l := range listeners {
			_ = l.Close()
		}
	}
	for _, at := range []struct {
		compartment uint32
		address     netip.AddrPort
		accepted    func(net.Conn)
	}{
		{0, netip.AddrPortFrom(a.host, hostPort), func(net.Conn) {}},
		{a.compartment, netip.AddrPortFrom(a.pod.Address, podPort), a.recordSource},
	} {
		l, err := a.listen(ctx, at.compartment, at.address)
		if err != nil {
			return stop, err
		}
		listeners = append(listeners, l)
		go echo(l, at.accepted)
	}
	return stop, nil
}

// listen waits until the compartment has the address.
func (a *aclTrial) listen(ctx context.Context, compartment uint32, at netip.AddrPort) (net.Listener, error) {
	for began := time.Now(); ; {
		l, err := a.spaces.Listen(ctx, compartment, at)
		if err == nil || time.Since(began) > addressTimeout {
			return l, err
		}
		if backoff.Sleep(ctx, probeInterval) != nil {
			return nil, errors.Join(ctx.Err(), err)
		}
	}
}

// echo returns what connections send, until the listener is closed.
func echo(l net.Listener, accepted func(net.Conn)) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		accepted(conn)
		go func() {
			defer conn.Close()
			_, _ = io.Copy(conn, io.LimitReader(conn, 16))
		}()
	}
}

func (a *aclTrial) recordSource(conn net.Conn) {
	host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		return
	}
	select {
	case a.sources <- host:
	default:
	}
}

// noteSources says from which addresses the machine reached the pod: the product always allows those of the node, and these must be among them.
func (a *aclTrial) noteSources() {
	var found []string
	for len(a.sources) > 0 {
		found = append(found, <-a.sources)
	}
	slices.Sort(found)
	for _, source := range slices.Compact(found) {
		kind := "another address"
		switch source {
		case a.host.String():
			kind = "the address of the host's endpoint"
		case a.address.String():
			kind = "the address of the machine"
		}
		if strings.HasPrefix(kind, "another") {
			a.fail("connections of the machine reach the pod from %s, %s, which the product would not allow", source, kind)
			continue
		}
		a.note("connections of the machine reach the pod from %s, %s", source, kind)
	}
}

// connect opens a connection to the pod, or from it, and returns nil if a byte comes back.
func (a *aclTrial) connect(ctx context.Context, direction hns.Direction) error {
	if direction == hns.In {
		return a.exchange(ctx, 0, netip.AddrPortFrom(a.pod.Address, podPort))
	}
	return a.exchange(ctx, a.compartment, netip.AddrPortFrom(a.host, hostPort))
}

func (a *aclTrial) exchange(ctx context.Context, from uint32, to netip.AddrPort) error {
	ctx, cancel := context.WithTimeout(ctx, packetTimeout)
	defer cancel()
	conn, err := a.spaces.Dial(ctx, from, to)
	if err != nil {
		return err
	}
	defer conn.Close()
	return exchangeByte(conn)
}

func exchangeByte(conn net.Conn) error {
	_ = conn.SetDeadline(time.Now().Add(packetTimeout))
	if _, err := conn.Write([]byte{'a'}); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, make([]byte, 1))
	return err
}

// tryOpenConnection checks what a write does to an open connection that rules allow before and after.
func (a *aclTrial) tryOpenConnection(ctx context.Context) {
	allowed := []hns.ACL{rule(hns.Allow, hns.In, rulePriority, podPort), rule(hns.Block, hns.In, hns.MaxACLPriority, 0), rule(hns.Allow, hns.Out, hns.MaxACLPriority, 0)}
	changed := append(slices.Clone(allowed), rule(hns.Allow, hns.In, rulePriority, unusedPort))
	if err := a.Host.EndpointACLs.SetACLs(ctx, a.pod.ID, allowed); err != nil {
		a.fail("writing rules: %v", err)
		return
	}
	limited, cancel := context.WithTimeout(ctx, packetTimeout)
	defer cancel()
	conn, err := a.spaces.Dial(limited, 0, netip.AddrPortFrom(a.pod.Address, podPort))
	if err == nil {
		defer conn.Close()
		err = exchangeByte(conn)
	}
	if err != nil {
		a.fail("an allowed connection was not opened: %v", err)
		return
	}
	for _, step := range []struct {
		what string
		acls []hns.ACL
	}{
		{"after a write that adds another port", changed},
		{"after a write that closes the pod", []hns.ACL{rule(hns.Block, hns.In, hns.MaxACLPriority, 0), rule(hns.Block, hns.Out, hns.MaxACLPriority, 0)}},
	} {
		if err := a.Host.EndpointACLs.SetACLs(ctx, a.pod.ID, step.acls); err != nil {
			a.fail("writing rules: %v", err)
			return
		}
		if err := exchangeByte(conn); err != nil {
			a.note("%s, an open connection does not continue: %v", step.what, err)
		} else {
			a.note("%s, an open connection continues", step.what)
		}
	}
}

// tryVIP finds out whether rules see the address of a Service or that of the pod behind it, which is the machine here.
func (a *aclTrial) tryVIP(ctx context.Context) {
	service, canBalance := a.Host.Networks.(balancerService)
	if !canBalance {
		a.untried = append(a.untried, "rules and load balancing were not tried: this machine has no load balancers")
		return
	}
	vip := netip.MustParseAddr(testVIP)
	_, err := service.CreateLoadBalancer(ctx, hns.LoadBalancer{
		VIPs: []netip.Addr{vip}, Endpoints: []string{a.endpoint.ID}, Protocol: hns.TCP, External: hostPort, Internal: hostPort, DSR: true,
	})
	if err != nil {
		a.untried = append(a.untried, fmt.Sprintf("rules and load balancing were not tried: no load balancer was created: %v", err))
		return
	}
	dial := func(acls ...hns.ACL) error {
		if err := a.Host.EndpointACLs.SetACLs(ctx, a.pod.ID, acls); err != nil {
			return err
		}
		return a.exchange(ctx, a.compartment, netip.AddrPortFrom(vip, hostPort))
	}
	in, closed := rule(hns.Allow, hns.In, hns.MaxACLPriority, 0), rule(hns.Block, hns.Out, hns.MaxACLPriority, 0)
	if err := dial(in, rule(hns.Allow, hns.Out, hns.MaxACLPriority, 0)); err != nil {
		a.untried = append(a.untried, fmt.Sprintf(
			"rules and load balancing were not tried: with all allowed, the pod does not reach the machine through a load balancer: %v", err))
		return
	}
	byBackend := dial(rule(hns.Allow, hns.Out, rulePriority, 0, a.host), in, closed) == nil
	byVIP := dial(rule(hns.Allow, hns.Out, rulePriority, 0, vip), in, closed) == nil
	switch {
	case byBackend && !byVIP:
		a.note("rules apply after load balancing: they see the address behind a Service")
	case byVIP:
		a.fail("rules apply before load balancing: a connection through a Service passes if its own address is allowed (and with the address behind it: %v)", byBackend)
	default:
		a.fail("a connection through a Service passes neither if its own address is allowed nor if the address behind it is")
	}
}
