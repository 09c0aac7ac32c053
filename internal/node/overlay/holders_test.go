package overlay_test

import (
	"os"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/overlay"
)

// restartWindows restarts the host: the network of pods is lost with its remote subnets, and meanwhile is called while the host is down.
func (h *host) restartWindows(meanwhile func()) {
	h.stop()
	pods, _ := h.network(overlay.Network)
	h.service.Lose(pods.ID)
	meanwhile()
	h.start()
}

func TestNodeKeepsSubnetAfterWindowsRestart(t *testing.T) {
	claim := map[string]string{overlay.SubnetAnnotation: "10.128.1.0/24", overlay.RouterMACAnnotation: "00-15-5d-00-00-66"}
	for name, test := range map[string]struct {
		remembers bool
		file      func(name string) error
		message   string
	}{
		"remembered":           {true, func(string) error { return nil }, `"node":"a-same","error":"its subnet 10.128.1.0/24 overlaps 10.128.1.0/24, which node linux-1 has"`},
		"the file was removed": {false, os.Remove, `"node":"linux-1","error":"its subnet 10.128.1.0/24 overlaps 10.128.1.0/24, which node a-same claims`},
		"the file is empty":    {false, func(name string) error { return os.Truncate(name, 0) }, "Reading which nodes had which subnets failed"},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(e *env) {
				h := e.overlaid(2)
				h.restartWindows(func() {
					if err := test.file(h.file("subnet-holders")); err != nil {
						t.Fatal(err)
					}
					e.node("a-same", "windows", "192.0.2.66", claim)
				})
				want := linuxRemotes(3)[2:]
				if test.remembers {
					want = linuxRemotes(3)[1:]
				}
				e.await(time.Minute, "the overlay is restored", func() bool { return h.published() && h.has(want...) })
				e.passes(time.Minute)
				if n, _ := h.network(overlay.Network); !h.has(want...) {
					t.Errorf("remote subnets are %v", n.Remotes)
				}
				if h.log.count(test.message) != 1 {
					t.Errorf("the log does not have %q once:\n%s", test.message, h.log)
				}
			})
		})
	}
}

func TestRemovedNodeLosesSubnet(t *testing.T) {
	story(t, func(e *env) {
		h := e.overlaid(1)
		h.restartWindows(func() {
			e.cluster.Delete(nodePath("linux-1"))
			e.node("linux-9", "linux", "192.0.100.2", linuxAnnotations(1))
		})
		e.await(time.Minute, "its successor has the subnet", func() bool { return h.published() && h.has(linuxRemote(1)) })
	})
}

func TestLastNodeChangeBeforeShutdownIsStored(t *testing.T) {
	story(t, func(e *env) {
		h := e.overlaid(0)
		e.linux(1)
		e.await(time.Second, "a node joined", func() bool { return h.has(linuxRemote(1)) })
		h.restartWindows(func() {
			e.node("a-same", "windows", "192.0.2.66", map[string]string{overlay.SubnetAnnotation: "10.128.1.0/24", overlay.RouterMACAnnotation: "00-15-5d-00-00-66"})
		})
		e.await(time.Minute, "it has its subnet", func() bool { return h.published() && h.has(linuxRemote(1)) })
	})
}

// TestHoldersFileIsNotWrittenForEachNode: many nodes may join within seconds.
func TestHoldersFileIsNotWrittenForEachNode(t *testing.T) {
	story(t, func(e *env) {
		h := e.overlaid(0)
		var written []time.Time
		for i := range 50 {
			e.linux(i)
			e.passes(100 * time.Millisecond)
			if info, err := os.Stat(h.file("subnet-holders")); err == nil && (len(written) == 0 || !info.ModTime().Equal(written[len(written)-1])) {
				written = append(written, info.ModTime())
			}
		}
		if len(written) > 2 {
			t.Errorf("the file was written %d times within 5 seconds", len(written))
		}
	})
}
