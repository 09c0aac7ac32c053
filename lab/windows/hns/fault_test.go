package hns

import (
	"testing"
	"time"
)

func TestInjectedFaultsAffectAllStores(t *testing.T) {
	s := newStore(t)
	other := openStore(t, s.Dir)
	for _, f := range []Fault{
		{Call: "HcnCreateLoadBalancer", Code: Exists, Times: 2},
		{Call: "HcnCreateLoadBalancer", Code: PortExists, Times: 3},
		{Call: "HcnOpen", Delay: time.Microsecond, Times: 1},
	} {
		if err := s.Inject(f); err != nil {
			t.Fatal(err)
		}
	}
	for i, step := range []struct {
		by   *Store
		call string
		want Code
	}{
		{s, "HcnCreateLoadBalancer", Exists},
		{s, "HcnDeleteLoadBalancer", 0},
		{other, "HcnCreateLoadBalancer", Exists},
		{s, "HcnCreateLoadBalancer", PortExists},
		{s, "HcnCreateLoadBalancer", 0},
		{s, "HcnOpenNetwork", 0},
	} {
		if err := step.by.Begin(step.call); CodeOf(err) != step.want {
			t.Errorf("call %d, %s: got %v, want %v", i, step.call, err, step.want)
		}
	}
	if err := s.Inject(Fault{Code: Fail}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := other.Begin("HNSCall GET /networks/"); CodeOf(err) != Fail {
			t.Errorf("permanent fault: got %v, want %v", err, Fail)
		}
	}
	if err := s.Forget(); err != nil {
		t.Fatal(err)
	}
	if err := other.Begin("HNSCall GET /networks/"); err != nil {
		t.Errorf("after a boot: %v", err)
	}
}

func TestFaultDelaysCalls(t *testing.T) {
	s := newStore(t)
	if err := s.Inject(Fault{Call: "HcnOpenNetwork", Delay: 20 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	if delay, code, err := s.matchFaults("HcnOpenNetwork"); delay != 20*time.Millisecond || code != 0 || err != nil {
		t.Errorf("got delay %v and code %v (%v)", delay, code, err)
	}
}

func TestCallsFailWhileTheServiceIsStopped(t *testing.T) {
	s := newStore(t)
	expect := func(when string, want Code) {
		t.Helper()
		for range 2 {
			if err := s.Begin("HcnOpenNetwork"); CodeOf(err) != want {
				t.Errorf("%s: %v, want %v", when, err, want)
			}
		}
	}
	expect("on a host without the service", 0)
	for range 2 {
		stop, err := openStore(t, s.Dir).Serve()
		if err != nil {
			t.Fatal(err)
		}
		expect("while the service runs", 0)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		expect("after the service stopped", Unavailable)
	}
}

func TestLosingEndpointKeepsLoadBalancer(t *testing.T) {
	s := newStore(t)
	mustCreate(t, s, LoadBalancer, "BBBBBBBB-0000-0000-0000-000000000001", `{"HostComputeEndpoints":["`+endpointID+`"],"PortMappings":[{}]}`)
	if err := s.LoseOne(Endpoint, endpointID); err != nil {
		t.Fatal(err)
	}
	if err := s.LoseOne(Endpoint, endpointID); CodeOf(err) != EndpointNotFound {
		t.Errorf("losing a missing endpoint: %v, want %v", err, EndpointNotFound)
	}
	if lb, err := s.List(LoadBalancer, ""); err != nil || len(lb) != 1 || len(lb[0].targets()) != 1 {
		t.Errorf("load balancers: got %v (%v), want one with its endpoint", lb, err)
	}
}
