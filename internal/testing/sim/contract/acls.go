package contract

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// ACLsFixture is a running Host Network Service for one test, without networks. The fixture cleans up after the test.
type ACLsFixture struct {
	ACLs hostapi.EndpointACLs
	NetworksFixture
}

// ACLs checks the contract of hostapi.EndpointACLs.
func ACLs(t *testing.T, fixture func(t *testing.T) ACLsFixture) {
	run(t, fixture, []test[ACLsFixture]{
		{"ACLsAreAsWritten", aclsAreAsWritten},
		{"EndpointsHaveSeparateACLs", endpointsHaveSeparateACLs},
		{"InvalidACLsChangeNothing", invalidACLsChangeNothing},
		{"ACLsRequireEndpoint", aclsRequireEndpoint},
		{"ACLsSurviveServiceRestart", aclsSurviveServiceRestart},
		{"LateResponseHasNoACLs", lateResponseHasNoACLs},
	})
}

func mustMakeEndpoints(t *testing.T, f ACLsFixture, names ...string) []string {
	t.Helper()
	n := mustCreateNetwork(t, f.NetworksFixture, overlayNetwork())
	var ids []string
	for _, name := range names {
		ids = append(ids, mustCreateEndpoint(t, f.NetworksFixture, hns.Endpoint{Network: n.ID, Name: name}).ID)
	}
	return ids
}

func mustSetACLs(t *testing.T, f ACLsFixture, endpoint string, acls []hns.ACL) {
	t.Helper()
	if err := f.ACLs.SetACLs(deadline(t), endpoint, acls); err != nil {
		t.Fatal(err)
	}
}

// expectACLs expects exactly these endpoints with their rules.
func expectACLs(t *testing.T, f ACLsFixture, want map[string][]hns.ACL) {
	t.Helper()
	got, err := f.ACLs.ACLs(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Errorf("endpoints have ACLs %+v, want %+v", got, want)
	}
	for id, acls := range want {
		if found, exists := got[id]; !exists || !hns.SameACLs(found, acls) {
			t.Errorf("endpoint %s has ACLs %+v (is there: %t), want %+v", id, found, exists, acls)
		}
	}
}

// webACLs allows clients to a server, and the server everything but one range.
func webACLs() []hns.ACL {
	return []hns.ACL{
		{
			Action: hns.Allow, Direction: hns.In, Protocol: hns.TCP, Priority: 1000,
			Remote:     []netip.Prefix{netip.MustParsePrefix("10.250.0.0/16"), netip.MustParsePrefix("192.0.2.7/32")},
			LocalPorts: []hns.PortRange{{First: 80, Last: 80}, {First: 8000, Last: 8100}}, RemotePorts: []hns.PortRange{{First: 1024, Last: 65535}},
		},
		{Action: hns.Block, Direction: hns.In, Priority: 65500},
		{Action: hns.Block, Direction: hns.Out, Priority: 100, Remote: []netip.Prefix{netip.MustParsePrefix("172.16.0.0/12")}},
		{Action: hns.Allow, Direction: hns.Out, Priority: 65500},
	}
}

func aclsAreAsWritten(t *testing.T, f ACLsFixture) {
	id := mustMakeEndpoints(t, f, "wicd-contract")[0]
	expectACLs(t, f, map[string][]hns.ACL{id: nil})
	var many []hns.ACL
	for i := range 300 {
		many = append(many, hns.ACL{
			Action: hns.Allow, Direction: hns.In, Protocol: hns.UDP, Priority: 1000, LocalPorts: []hns.PortRange{{First: 53, Last: 53}},
			Remote: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 32)},
		})
	}
	for _, step := range []struct {
		what string
		acls []hns.ACL
	}{
		{"all fields", webACLs()},
		{"the same again", webACLs()},
		{"none", nil},
		{"none again", nil},
		{"each protocol", []hns.ACL{
			{Action: hns.Allow, Direction: hns.In, Protocol: hns.UDP, Priority: 100, RemotePorts: []hns.PortRange{{First: 53, Last: 53}}},
			{Action: hns.Allow, Direction: hns.In, Protocol: hns.SCTP, Priority: 101, LocalPorts: []hns.PortRange{{First: 1, Last: 65535}}},
			{Action: hns.Allow, Direction: hns.In, Protocol: 1, Priority: 102},
			{Action: hns.Allow, Direction: hns.In, Priority: 103},
		}},
		{"many", many},
		{"fewer", many[1:299]},
		{"others", webACLs()[1:3]},
	} {
		mustSetACLs(t, f, id, step.acls)
		t.Log(step.what)
		expectACLs(t, f, map[string][]hns.ACL{id: step.acls})
	}
}

func endpointsHaveSeparateACLs(t *testing.T, f ACLsFixture) {
	ids := mustMakeEndpoints(t, f, "wicd-contract", "wicd-contract-two", "wicd-contract-three")
	mustSetACLs(t, f, ids[0], webACLs())
	mustSetACLs(t, f, ids[1], webACLs()[:1])
	expectACLs(t, f, map[string][]hns.ACL{ids[0]: webACLs(), ids[1]: webACLs()[:1], ids[2]: nil})
	if err := f.Networks.Remove(deadline(t), hns.State{Endpoints: []hns.Endpoint{{ID: ids[0]}}}); err != nil {
		t.Fatal(err)
	}
	expectACLs(t, f, map[string][]hns.ACL{ids[1]: webACLs()[:1], ids[2]: nil})
}

// invalidACLsChangeNothing has only a sample of what hns.CheckACLs rejects.
func invalidACLsChangeNothing(t *testing.T, f ACLsFixture) {
	id := mustMakeEndpoints(t, f, "wicd-contract")[0]
	mustSetACLs(t, f, id, webACLs())
	all, port := netip.MustParsePrefix("0.0.0.0/0"), hns.PortRange{First: 80, Last: 80}
	for what, invalid := range map[string]hns.ACL{
		"no action":                       {Direction: hns.In, Priority: 100},
		"no direction":                    {Action: hns.Allow, Priority: 100},
		"no priority":                     {Action: hns.Allow, Direction: hns.In},
		"a priority that closes it":       {Action: hns.Allow, Direction: hns.In, Priority: 99},
		"a priority that is too large":    {Action: hns.Allow, Direction: hns.In, Priority: 65501},
		"ports without a protocol":        {Action: hns.Allow, Direction: hns.In, Priority: 100, LocalPorts: []hns.PortRange{port}},
		"an address that matches nothing": {Action: hns.Allow, Direction: hns.In, Priority: 100, Remote: []netip.Prefix{all}},
		"another program's":               {Foreign: true},
	} {
		err := f.ACLs.SetACLs(deadline(t), id, []hns.ACL{webACLs()[1], invalid})
		expectError(t, what, err, hns.ErrPolicy)
	}
	expectACLs(t, f, map[string][]hns.ACL{id: webACLs()})
}

func aclsRequireEndpoint(t *testing.T, f ACLsFixture) {
	expectACLs(t, f, nil)
	id := mustMakeEndpoints(t, f, "wicd-contract")[0]
	for _, acls := range [][]hns.ACL{webACLs(), nil} {
		expectError(t, "an endpoint that is not there", f.ACLs.SetACLs(deadline(t), absent, acls), hns.ErrNotFound)
	}
	mustSetACLs(t, f, id, webACLs())
	if err := f.Networks.Remove(deadline(t), hns.State{Endpoints: []hns.Endpoint{{ID: id}}}); err != nil {
		t.Fatal(err)
	}
	expectError(t, "an endpoint that is gone", f.ACLs.SetACLs(deadline(t), id, nil), hns.ErrNotFound)
	expectACLs(t, f, nil)
}

func aclsSurviveServiceRestart(t *testing.T, f ACLsFixture) {
	if f.Stop == nil {
		t.Skip(f.NoStop)
	}
	id := mustMakeEndpoints(t, f, "wicd-contract")[0]
	mustSetACLs(t, f, id, webACLs())
	f.Stop(t)
	_, err := f.ACLs.ACLs(deadline(t))
	expectError(t, "ACLs of a stopped service", err, hns.ErrUnavailable)
	expectError(t, "SetACLs of a stopped service", f.ACLs.SetACLs(deadline(t), id, nil), hns.ErrUnavailable)
	f.Start(t)
	expectACLs(t, f, map[string][]hns.ACL{id: webACLs()})
}

func lateResponseHasNoACLs(t *testing.T, f ACLsFixture) {
	id := mustMakeEndpoints(t, f, "wicd-contract")[0]
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	<-ctx.Done()
	acls, err := f.ACLs.ACLs(ctx)
	expectError(t, "ACLs", err, hns.ErrUnavailable)
	if len(acls) > 0 {
		t.Errorf("it has %+v nevertheless", acls)
	}
	err = f.ACLs.SetACLs(ctx, id, webACLs())
	expectError(t, "SetACLs", err, hns.ErrUnavailable)
	expectError(t, "SetACLs", err, context.DeadlineExceeded)
	expectACLs(t, f, map[string][]hns.ACL{id: nil})
}
