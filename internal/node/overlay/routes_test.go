package overlay_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostnetwork"
	"github.com/windows-machine-config/wmco/internal/node/overlay"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// adapters is a host whose address moves to a virtual adapter some time after the first network was created.
type adapters struct {
	overlay.HNS
	takes    time.Duration
	mu       sync.Mutex
	physical []hostnetwork.Route
	virtual  []hostnetwork.Route
	moved    time.Time
	refuses  error
	// persistent are the routes that Windows keeps. unlisted is why they cannot be read.
	persistent []hostnetwork.Route
	unlisted   error
}

// CreateNetwork implements overlay.HNS.
func (a *adapters) CreateNetwork(ctx context.Context, n hns.Network) (hns.Network, error) {
	a.mu.Lock()
	if a.moved.IsZero() {
		a.moved = time.Now().Add(a.takes)
	}
	a.mu.Unlock()
	return a.HNS.CreateNetwork(ctx, n)
}

// DeleteNetwork implements overlay.HNS. Windows can lose routes when a network is deleted.
func (a *adapters) DeleteNetwork(ctx context.Context, id string) error {
	a.restart(a.virtual[:1]...)
	return a.HNS.DeleteNetwork(ctx, id)
}

// Routes implements overlay.Routes.
func (a *adapters) Routes(_ context.Context, address netip.Addr) ([]hostnetwork.Route, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case address != netip.MustParseAddr("192.0.2.1"):
		return nil, fmt.Errorf("no interface has %s", address)
	case a.moved.IsZero():
		return slices.Clone(a.physical), nil
	case time.Now().Before(a.moved):
		return nil, errors.New("no interface has the address at the moment")
	}
	return slices.Clone(a.virtual), nil
}

// PersistentRoutes implements overlay.Routes.
func (a *adapters) PersistentRoutes(context.Context, netip.Addr) ([]hostnetwork.Route, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.persistent), a.unlisted
}

// restart simulates a restart of Windows: the base network keeps the virtual adapter, which only has the routes that Windows adds itself.
func (a *adapters) restart(usual ...hostnetwork.Route) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.virtual = usual
}

// AddRoute implements overlay.Routes.
func (a *adapters) AddRoute(_ context.Context, _ netip.Addr, r hostnetwork.Route) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refuses != nil {
		return a.refuses
	}
	a.virtual = append(a.virtual, r)
	return nil
}

func TestNetworksAreCreatedWithoutReadableRoutes(t *testing.T) {
	story(t, func(e *env) {
		e.linux(1)
		h := e.windows(1, sim.HNSOptions{})
		a := &adapters{HNS: h.service, takes: time.Hour, moved: time.Now().Add(time.Hour)}
		h.options.HNS, h.options.Routes = a, a
		h.start()
		e.await(5*time.Second, "the overlay is configured", func() bool { return h.published() && h.has(linuxRemote(1)) })
		if h.log.count("may be lost") != 1 {
			t.Error("the log does not report it")
		}
	})
}

func TestStaticRoutesMoveWithTheAddress(t *testing.T) {
	usual := hostnetwork.Route{To: netip.MustParsePrefix("0.0.0.0/0"), Gateway: netip.MustParseAddr("192.0.2.254"), Metric: 5}
	storage := hostnetwork.Route{To: netip.MustParsePrefix("10.9.0.0/16"), Gateway: netip.MustParseAddr("192.0.2.253"), Metric: 7}
	for name, test := range map[string]struct {
		takes   time.Duration
		refuses error
		want    []hostnetwork.Route
		message string
	}{
		"at once":        {0, nil, []hostnetwork.Route{usual, storage}, "Routes moved"},
		"after a while":  {50 * time.Second, nil, []hostnetwork.Route{usual, storage}, "Routes moved"},
		"never":          {time.Hour, nil, []hostnetwork.Route{usual}, "are lost"},
		"not on Windows": {0, errors.ErrUnsupported, []hostnetwork.Route{usual}, "are lost"},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(e *env) {
				e.linux(1)
				h := e.windows(1, sim.HNSOptions{})
				a := &adapters{HNS: h.service, takes: test.takes, refuses: test.refuses, physical: []hostnetwork.Route{usual, storage}, virtual: []hostnetwork.Route{usual}}
				h.options.HNS, h.options.Routes = a, a
				h.start()
				e.await(5*time.Second, "the overlay is configured", func() bool { return h.published() && h.has(linuxRemote(1)) })
				e.passes(10 * time.Minute)
				if !slices.Equal(a.virtual, test.want) {
					t.Errorf("routes %v, want %v", a.virtual, test.want)
				}
				if h.log.count(test.message) != 1 {
					t.Errorf("the log does not have %q once:\n%s", test.message, h.log)
				}
				// Recreating a network moves nothing.
				n, _ := h.network(overlay.Network)
				h.service.Lose(n.ID)
				e.await(time.Minute, "the network is back", func() bool { return h.published() && h.has(linuxRemote(1)) })
				if !slices.Equal(a.virtual, test.want) {
					t.Errorf("routes %v, want %v", a.virtual, test.want)
				}
			})
		})
	}
}

func TestPersistentRoutesSurviveARestartOfWindows(t *testing.T) {
	route := func(to, gateway string) hostnetwork.Route {
		return hostnetwork.Route{To: netip.MustParsePrefix(to), Gateway: netip.MustParseAddr(gateway), Metric: 5}
	}
	usual, storage, onLink := route("0.0.0.0/0", "192.0.2.254"), route("10.9.0.0/16", "192.0.2.253"), route("10.7.0.0/16", "0.0.0.0")
	temporary := route("169.254.169.250/32", "192.0.2.254") // EC2Launch adds such routes at each start
	for name, test := range map[string]struct {
		meanwhile func(a *adapters)
		want      []hostnetwork.Route // in addition to the usual one
		message   string
	}{
		"no route was removed":              {func(*adapters) {}, []hostnetwork.Route{storage}, "Persistent routes added to the virtual adapter"},
		"the route exists":                  {func(a *adapters) { a.virtual = append(a.virtual, storage) }, []hostnetwork.Route{storage}, ""},
		"the route was removed permanently": {func(a *adapters) { a.persistent = nil }, nil, ""},
		"another gateway is set":            {func(a *adapters) { a.virtual = append(a.virtual, route("10.9.0.0/16", "192.0.2.252")) }, []hostnetwork.Route{route("10.9.0.0/16", "192.0.2.252")}, ""},
		"one without a gateway":             {func(a *adapters) { a.persistent = []hostnetwork.Route{onLink} }, nil, "Persistent routes without a gateway are not added"},
		"Windows does not list any":         {func(a *adapters) { a.persistent, a.unlisted = nil, errors.New("no netsh") }, nil, "Reading the persistent routes of this host failed; some may be missing"},
		"the route cannot be added":         {func(a *adapters) { a.refuses = errors.New("access denied") }, nil, "Adding the static routes of this host failed"},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(e *env) {
				e.linux(1)
				h := e.windows(1, sim.HNSOptions{})
				a := &adapters{HNS: h.service, physical: []hostnetwork.Route{usual, storage, temporary}, virtual: []hostnetwork.Route{usual}, persistent: []hostnetwork.Route{storage}}
				h.options.HNS, h.options.Routes = a, a
				h.start()
				e.await(5*time.Second, "the overlay is configured", func() bool { return h.published() && h.has(linuxRemote(1)) })
				e.passes(time.Minute)
				if want := []hostnetwork.Route{usual, storage, temporary}; !slices.Equal(a.virtual, want) {
					t.Fatalf("before the restart, routes %v, want %v", a.virtual, want)
				}
				h.restartWindows(func() {
					a.restart(usual)
					test.meanwhile(a)
				})
				e.await(5*time.Second, "the overlay is restored", func() bool { return h.published() && h.has(linuxRemote(1)) })
				e.passes(10 * time.Minute)
				if want := append([]hostnetwork.Route{usual}, test.want...); !slices.Equal(a.virtual, want) {
					t.Errorf("routes %v, want %v", a.virtual, want)
				}
				if test.message != "" && h.log.count(test.message) != 1 {
					t.Errorf("the log does not have %q once:\n%s", test.message, h.log)
				}
			})
		})
	}
}

// TestPersistentRoutesAreAddedWhenNoNetworkChanges: the networks exist if the program starts after Windows has restored them.
func TestPersistentRoutesAreAddedWhenNoNetworkChanges(t *testing.T) {
	usual := hostnetwork.Route{To: netip.MustParsePrefix("0.0.0.0/0"), Gateway: netip.MustParseAddr("192.0.2.254"), Metric: 5}
	storage := hostnetwork.Route{To: netip.MustParsePrefix("10.9.0.0/16"), Gateway: netip.MustParseAddr("192.0.2.253"), Metric: 7}
	story(t, func(e *env) {
		h := e.windows(1, sim.HNSOptions{})
		a := &adapters{HNS: h.service, virtual: []hostnetwork.Route{usual}, persistent: []hostnetwork.Route{storage}}
		h.options.HNS, h.options.Routes = a, a
		h.start()
		e.await(time.Minute, "the overlay is configured", h.published)
		h.stop()
		h.service.ResetCalls()
		a.restart(usual)
		h.start()
		e.passes(10 * time.Second)
		h.wantChanges(map[string]int{})
		if want := []hostnetwork.Route{usual, storage}; !slices.Equal(a.virtual, want) {
			t.Errorf("routes %v, want %v", a.virtual, want)
		}
		// A route that is removed while the program runs is not added again until its next start.
		a.restart(usual)
		e.passes(10 * time.Minute)
		if want := []hostnetwork.Route{usual}; !slices.Equal(a.virtual, want) {
			t.Errorf("routes %v, want %v", a.virtual, want)
		}
	})
}

func TestRoutesSurviveNetworkReplacement(t *testing.T) {
	usual := hostnetwork.Route{To: netip.MustParsePrefix("0.0.0.0/0"), Gateway: netip.MustParseAddr("192.0.2.254"), Metric: 5}
	temporary := hostnetwork.Route{To: netip.MustParsePrefix("169.254.169.250/32"), Gateway: netip.MustParseAddr("192.0.2.254"), Metric: 7}
	story(t, func(e *env) {
		h := e.windows(1, sim.HNSOptions{})
		a := &adapters{HNS: h.service, physical: []hostnetwork.Route{usual, temporary}, virtual: []hostnetwork.Route{usual}}
		h.options.HNS, h.options.Routes = a, a
		h.start()
		e.await(time.Minute, "the overlay is configured", h.published)
		h.service.ResetCalls()
		e.annotate(h.node, overlay.SubnetAnnotation, "10.132.200.0/24")
		e.await(time.Minute, "the network has the new subnet", func() bool {
			n, _ := h.network(overlay.Network)
			return h.published() && n.Subnets[0].Prefix == netip.MustParsePrefix("10.132.200.0/24")
		})
		e.passes(time.Minute)
		h.wantChanges(map[string]int{"DeleteNetwork": 1, "CreateNetwork": 1})
		if want := []hostnetwork.Route{usual, temporary}; !slices.Equal(a.virtual, want) {
			t.Errorf("routes %v, want %v", a.virtual, want)
		}
	})
}
