package configure_test

import (
	"context"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

func prepare(w *sim.Windows, features ...string) (result wicdapi.PrepareResult, err error) {
	err = wicdapi.Call(context.Background(), daemontest.NewWire(w), wicdapi.CommandPrepare, wicdapi.PrepareRequest{Features: features}, &result, nil)
	return result, err
}

func TestPrepareLeavesNoState(t *testing.T) {
	w, c := daemontest.NewWindows(t, sim.WindowsOptions{}), daemontest.NewPayload("1")
	daemontest.MustSend(t, w, c)
	if _, err := w.Host().Disk.WriteFile(desired.State+`\journal.jsonl`, "of a cluster that the host has left\n"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if r, err := prepare(w, desired.ContainersFeature); err != nil || r.Rebooting != "" || r.BootID == "" {
			t.Fatalf("Prepare() = %+v, %v", r, err)
		}
		if names, err := w.Host().Disk.List(desired.State); err != nil || len(names) > 0 {
			t.Errorf("the state has %q (%v)", names, err)
		}
	}
	if names, err := w.Host().Disk.List(desired.Store); err != nil || len(names) != len(c.Contents) {
		t.Errorf("the store has %q (%v)", names, err)
	}
	if r := daemontest.MustSend(t, w, c); r.Files > 0 {
		t.Errorf("%d files were sent again", r.Files)
	}
}

func TestPrepareRefusesNodes(t *testing.T) {
	w, c := newShared(t), daemontest.NewPayload("1")
	mustJoinAndWork(t, w, leavingRequest(t, c), c)
	changes := w.Changes()
	_, err := prepare(w, desired.ContainersFeature)
	daemontest.ExpectCode(t, err, wicdapi.CodeRequestInvalid)
	if !strings.Contains(err.Error(), "no node") {
		t.Errorf("the error is %v", err)
	}
	for _, name := range []string{`node.json`, `journal.jsonl`} {
		if !w.Host().Disk.Exists(desired.State + `\` + name) {
			t.Errorf("%s of the node is gone, after %d changes", name, w.Changes()-changes)
		}
	}
}

func TestPrepareRefusesOtherFeatures(t *testing.T) {
	w := daemontest.NewWindows(t, sim.WindowsOptions{})
	_, err := prepare(w, desired.ContainersFeature, "SMB1Protocol")
	daemontest.ExpectCode(t, err, wicdapi.CodeRequestInvalid)
	if !strings.Contains(err.Error(), "SMB1Protocol") || !strings.Contains(err.Error(), desired.HyperVFeature) {
		t.Errorf("the error is %v", err)
	}
}
