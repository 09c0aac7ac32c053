package daemon_test

import (
	"testing"

	"github.com/windows-machine-config/wmco/internal/sim"
)

func TestAKubeletWhoseNodeIsGoneStartsAnewAndNothingElseDoes(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
	mustSend(t, w, c)
	r := newRequest(c)
	mustJoin(t, w, r)
	kubelet, containerd := w.Service("kubelet").PID, w.Service("containerd").PID
	r.Register = true
	mustJoin(t, w, r)
	if w.Service("kubelet").PID == kubelet {
		t.Error("the kubelet goes on without a Node")
	}
	if w.Service("containerd").PID != containerd {
		t.Error("containerd was started anew")
	}
	r.Register = false
	if result := mustJoin(t, w, r); len(result.Changed) != 0 {
		t.Errorf("the next join changed %v", result.Changed)
	}
}
