package overlay_test

import (
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/overlay"
	"github.com/windows-machine-config/wmco/internal/testing/sim/servers"
)

func TestChangesOfNodesDuringAnOutageAreApplied(t *testing.T) {
	for name, test := range map[string]struct{ before, after func(*servers.Cluster) }{
		"server unavailable":                  {func(c *servers.Cluster) { c.SetUnavailable(true) }, func(c *servers.Cluster) { c.SetUnavailable(false) }},
		"server lost its history":             {func(c *servers.Cluster) { c.SetUnavailable(true) }, func(c *servers.Cluster) { c.Forget(); c.SetUnavailable(false) }},
		"the same, without sendInitialEvents": {func(c *servers.Cluster) { c.SetUnavailable(true); c.ListOnly() }, func(c *servers.Cluster) { c.Forget(); c.SetUnavailable(false) }},
		"connections closed":                  {func(*servers.Cluster) {}, func(c *servers.Cluster) { c.SetUnavailable(true); c.SetUnavailable(false) }},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(e *env) {
				h := e.overlaid(2)
				h.service.ResetCalls()
				test.before(e.cluster)
				e.passes(10 * time.Minute)
				if !h.has(linuxRemote(1), linuxRemote(2)) {
					t.Error("remote subnets were removed while the API server was unavailable")
				}
				e.cluster.Delete(nodePath("linux-2"))
				e.linux(3)
				test.after(e.cluster)
				e.await(30*time.Second, "the changes are applied", func() bool { return h.has(linuxRemote(1), linuxRemote(3)) })
				if got := h.changes(); got["CreateNetwork"]+got["DeleteNetwork"] > 0 {
					t.Errorf("calls: %v", got)
				}
			})
		})
	}
}

// TestRouterAddressIsRepublished: other nodes need the address of this host's router, and another program may have changed or removed it.
func TestRouterAddressIsRepublished(t *testing.T) {
	story(t, func(e *env) {
		h := e.overlaid(0)
		e.annotate(h.node, overlay.RouterMACAnnotation, "00-15-5D-FF-FF-FF")
		e.await(5*time.Second, "it is published again", h.published)
		written := e.cluster.Count("PATCH", nodePath(h.node))
		e.annotate(h.node, overlay.RouterMACAnnotation, strings.ToLower(strings.ReplaceAll(e.annotation(h.node, overlay.RouterMACAnnotation), "-", ":")))
		e.passes(time.Minute)
		if again := e.cluster.Count("PATCH", nodePath(h.node)); again != written {
			t.Error("the same address in another form was written again")
		}
		if n := e.cluster.Count("PATCH", nodePath(h.node)+"/status"); n != written {
			t.Errorf("%d of %d patches were of the status; OVN-Kubernetes allows no others", n, written)
		}
	})
}
