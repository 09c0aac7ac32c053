package overlay_test

import (
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/overlay"
	"github.com/windows-machine-config/wmco/internal/sim"
)

func TestNodesThatCameAndWentUnseenAreNoticed(t *testing.T) {
	for name, test := range map[string]struct{ before, after func(*sim.Cluster) }{
		"server away for a while":        {func(c *sim.Cluster) { c.SetAway(true) }, func(c *sim.Cluster) { c.SetAway(false) }},
		"server forgot what it told":     {func(c *sim.Cluster) { c.SetAway(true) }, func(c *sim.Cluster) { c.Forget(); c.SetAway(false) }},
		"the same, and it lists only":    {func(c *sim.Cluster) { c.SetAway(true); c.ListOnly() }, func(c *sim.Cluster) { c.Forget(); c.SetAway(false) }},
		"connections ended, and no more": {func(*sim.Cluster) {}, func(c *sim.Cluster) { c.SetAway(true); c.SetAway(false) }},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(w *world) {
				w.linux(1)
				w.linux(2)
				h := w.windows(1, sim.HNSOptions{}).start()
				w.awaits(time.Minute, "the overlay is there", func() bool { return h.told() && h.has(linuxWay(1), linuxWay(2)) })
				h.service.ResetCalls()
				test.before(w.cluster)
				w.passes(10 * time.Minute)
				if !h.has(linuxWay(1), linuxWay(2)) {
					t.Error("ways went while the API server was away")
				}
				w.cluster.Delete(nodePath("linux-2"))
				w.linux(3)
				test.after(w.cluster)
				w.awaits(30*time.Second, "what happened is noticed", func() bool { return h.has(linuxWay(1), linuxWay(3)) })
				if got := h.changes(); got["CreateNetwork"]+got["DeleteNetwork"] > 0 {
					t.Errorf("calls: %v", got)
				}
			})
		})
	}
}

func TestNodesAreListedByPagesWhereWatchesCannotBeginWithThem(t *testing.T) {
	story(t, func(w *world) {
		w.cluster.ListOnly()
		want := ways(600)
		for i := range 600 {
			w.linux(i)
		}
		h := w.windows(1, sim.HNSOptions{}).start()
		w.awaits(time.Minute, "all ways are there", func() bool { return h.has(want...) && h.told() })
		w.linux(600)
		w.awaits(time.Second, "a node joined", func() bool { return h.has(append(want, linuxWay(600))...) })
	})
}

// The pods of this host are reached by its router's address: somebody may have written another, or removed it.
func TestAddressOfTheRouterIsToldAgain(t *testing.T) {
	story(t, func(w *world) {
		h := w.windows(1, sim.HNSOptions{}).start()
		w.awaits(time.Minute, "the address is told", h.told)
		w.annotate(h.node, overlay.RouterMACAnnotation, "00-15-5D-FF-FF-FF")
		w.awaits(5*time.Second, "it is told again", h.told)
		written := w.cluster.Count("PATCH", nodePath(h.node))
		w.annotate(h.node, overlay.RouterMACAnnotation, strings.ToLower(strings.ReplaceAll(w.annotation(h.node, overlay.RouterMACAnnotation), "-", ":")))
		w.passes(time.Minute)
		if again := w.cluster.Count("PATCH", nodePath(h.node)); again != written {
			t.Error("the same address in another form was written again")
		}
		if n := w.cluster.Count("PATCH", nodePath(h.node)+"/status"); n != written {
			t.Errorf("%d of %d patches were of the status; OVN-Kubernetes allows no others", n, written)
		}
	})
}
