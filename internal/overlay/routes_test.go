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

	"github.com/windows-machine-config/wmco/internal/hns"
	"github.com/windows-machine-config/wmco/internal/overlay"
	"github.com/windows-machine-config/wmco/internal/sim"
)

// adapters is a host whose address moves to a virtual adapter some time after the first network was created.
type adapters struct {
	overlay.HNS
	takes    time.Duration
	mu       sync.Mutex
	physical []overlay.Route
	virtual  []overlay.Route
	moved    time.Time
	refuses  error
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

// Routes implements overlay.Routes.
func (a *adapters) Routes(_ context.Context, address netip.Addr) ([]overlay.Route, error) {
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

// AddRoute implements overlay.Routes.
func (a *adapters) AddRoute(_ context.Context, _ netip.Addr, r overlay.Route) error {
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
		e.awaits(5*time.Second, "the overlay is there", func() bool { return h.published() && h.has(linuxRemote(1)) })
		if h.log.count("may be lost") != 1 {
			t.Error("the log does not say so")
		}
	})
}

func TestStaticRoutesMoveWithTheAddress(t *testing.T) {
	usual := overlay.Route{To: netip.MustParsePrefix("0.0.0.0/0"), Gateway: netip.MustParseAddr("192.0.2.254"), Metric: 5}
	storage := overlay.Route{To: netip.MustParsePrefix("10.9.0.0/16"), Gateway: netip.MustParseAddr("192.0.2.253"), Metric: 7}
	for name, test := range map[string]struct {
		takes   time.Duration
		refuses error
		want    []overlay.Route
		says    string
	}{
		"at once":        {0, nil, []overlay.Route{usual, storage}, "Routes moved"},
		"after a while":  {50 * time.Second, nil, []overlay.Route{usual, storage}, "Routes moved"},
		"never":          {time.Hour, nil, []overlay.Route{usual}, "are lost"},
		"not on Windows": {0, errors.ErrUnsupported, []overlay.Route{usual}, "are lost"},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(e *env) {
				e.linux(1)
				h := e.windows(1, sim.HNSOptions{})
				a := &adapters{HNS: h.service, takes: test.takes, refuses: test.refuses, physical: []overlay.Route{usual, storage}, virtual: []overlay.Route{usual}}
				h.options.HNS, h.options.Routes = a, a
				h.start()
				e.awaits(5*time.Second, "the overlay is there", func() bool { return h.published() && h.has(linuxRemote(1)) })
				e.passes(10 * time.Minute)
				if !slices.Equal(a.virtual, test.want) {
					t.Errorf("routes %v, want %v", a.virtual, test.want)
				}
				if h.log.count(test.says) != 1 {
					t.Errorf("the log does not say %q once:\n%s", test.says, h.log)
				}
				// A network that is made again moves nothing.
				n, _ := h.network(overlay.Network)
				h.service.Lose(n.ID)
				e.awaits(time.Minute, "the network is back", func() bool { return h.published() && h.has(linuxRemote(1)) })
				if !slices.Equal(a.virtual, test.want) {
					t.Errorf("routes %v, want %v", a.virtual, test.want)
				}
			})
		})
	}
}
