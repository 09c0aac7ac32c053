//go:build linux

package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// TestANodeIsDeletedAndItsHostRestarts does what many administrators do to repair a node. The kubelet registers the Node again on its own, without an
// address: Windows has none yet.
func TestANodeIsDeletedAndItsHostRestarts(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunRegistries())
	p := newPlace(t, testenv.Options{WineHosts: 1, Network: testenv.NetworkLab})
	p.joinAll()
	name := p.Hosts()[0].Name
	before := p.node(name)
	p.remove(before)
	if err := p.Lab.Hosts()[0].Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.eventually("the instance has another Node", func(context.Context) string {
		for _, i := range p.instances() {
			if i.Status.NodeRef == nil || i.Status.NodeRef.UID == before.UID {
				return fmt.Sprintf("its status is %+v", i.Status)
			}
		}
		return ""
	})
	p.expectAllReady()
}
