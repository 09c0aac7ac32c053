//go:build linux

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/node/cri"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// TestImagesBeforePods joins two simulated hosts that pull images before they take pods; a registry lacks one of them.
func TestImagesBeforePods(t *testing.T) {
	p := newHarness(t, testenv.Options{SimulatedHosts: 2})
	const core, team = "mcr.microsoft.com/windows/servercore:ltsc2022", "registry.example.com/team/base:1"
	p.configure(func(s *v1alpha1.WindowsConfigSpec) {
		s.Images.Prepull = []v1alpha1.PrepulledImage{{Image: core, Versions: []v1alpha1.WindowsVersion{v1alpha1.WindowsServer2022}}, {Image: team}}
	})
	p.Simulated()[1].Windows().RefuseImage(team, &cri.Error{Code: cri.NotFound, Message: "not found"})
	must(t, p.Announce(t.Context(), p.Hosts()...))
	p.expectAllReady()
	for i, want := range []struct {
		reason  string
		message string
	}{{api.ReasonImagesPulled, "all 2 images"}, {api.ReasonImagesNotPulled, team + " could not be pulled"}} {
		eventuallyOf(p, "the node has tried to pull its images", types.NamespacedName{Name: p.Hosts()[i].Name}, func(node *corev1.Node) string {
			c := nodestate.Condition(node, api.ConditionImagesMissing)
			if c == nil || c.Reason != want.reason || !strings.Contains(c.Message, want.message) || slices.ContainsFunc(node.Spec.Taints, nodestate.IsForImages) {
				return fmt.Sprintf("got condition %+v and taints %v", c, node.Spec.Taints)
			}
			return ""
		})
		conf, err := p.Simulated()[i].Windows().Disk().Read(`C:\k\kubelet.conf`)
		if err != nil || !strings.Contains(string(conf), api.TaintImages) {
			t.Errorf("kubelet.conf of host %d has no taint for images (%v)", i, err)
		}
	}
	p.expectEvent(p.Hosts()[1].Name, api.ReasonImagesNotPulled, team)
}
