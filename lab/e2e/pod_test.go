//go:build linux

package e2e

import (
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// TestOperatorPod runs the operator as users do: the image that make image builds, pulled from a registry by a real Linux node, as the
// pod of the unmodified deploy/. A Wine host joins through it.
func TestOperatorPod(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunLinuxNodes())
	p := newPlace(t, testenv.Options{WineHosts: 1, Pod: true})
	t.Run("ItHasNoMoreRightsThanItNeeds", func(t *testing.T) { p.in(t).checkPodRights() })
	p.joinAll()
}

// checkPodRights reads from the kernel what the operator's process may do.
func (p place) checkPodRights() {
	c, err := p.Pod.Container(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	const none = "0000000000000000"
	for field, want := range map[string]string{
		"Uid": "65532 65532 65532 65532", "Gid": "65532 65532 65532 65532", "NoNewPrivs": "1",
		"Seccomp": "2", // a filter: RuntimeDefault
		"CapPrm":  none, "CapEff": none, "CapBnd": none, "CapInh": none, "CapAmb": none,
	} {
		if got, err := c.Status(field); err != nil || got != want {
			p.t.Errorf("%s of the operator's process is %q (%v), want %q", field, got, err, want)
		}
	}
	if limit, err := c.Memory("memory.limit_in_bytes"); err != nil || limit != 1<<30 {
		p.t.Errorf("the memory limit is %d (%v), want 1 GiB", limit, err)
	}
	if read := c.MountOptions("/"); !strings.HasPrefix(read, "ro") {
		p.t.Errorf("the root file system is mounted %q, want it read-only", read)
	}
}
