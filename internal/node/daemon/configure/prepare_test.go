package configure_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/cri"
	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/payload"
)

func prepare(w *sim.Windows, features ...string) (wicdapi.PrepareResult, error) {
	return prepareWith(w, wicdapi.PrepareRequest{Features: features})
}

// withImage prepares a host with an image, as kubectl windows does.
func withImage(t *testing.T, w *sim.Windows, c *daemontest.Payload, image string) (wicdapi.PrepareResult, error) {
	t.Helper()
	content := payload.Manifest{Digest: daemontest.NewRequest(c).Desired.Digest}
	for _, f := range c.Files {
		content.Files = append(content.Files, payload.File{Path: strings.ReplaceAll(f.Path, `\`, "/"), SHA256: f.SHA256, Size: f.Size})
	}
	n, err := desired.ForImage("1", content, image, "")
	if err != nil {
		t.Fatal(err)
	}
	return prepareWith(w, wicdapi.PrepareRequest{Features: []string{desired.ContainersFeature}, Containerd: &n})
}

// prepareWith repeats the command while Windows completes its setup or servicing, as the caller does.
func prepareWith(w *sim.Windows, r wicdapi.PrepareRequest) (result wicdapi.PrepareResult, err error) {
	for {
		err = wicdapi.Call(context.Background(), daemontest.NewWire(w), wicdapi.CommandPrepare, r, &result, nil)
		failed := wicdapi.Failed(err)
		if failed == nil || failed.Code != wicdapi.CodeWaitingForSetup && failed.Code != wicdapi.CodeServicing {
			return result, err
		}
		time.Sleep(time.Minute)
	}
}

// expectOnlyContent checks that a prepared host has nothing of the operator's but its content, the name of the image and the data of containerd.
func expectOnlyContent(t *testing.T, w *sim.Windows) {
	t.Helper()
	d := w.Host().Disk
	names, err := d.List(desired.Root)
	want := []string{"sandbox-image.txt", "state", "store"}
	if slices.Sort(names); err != nil || !slices.Equal(names, want) {
		t.Errorf("%s has %q (%v), want %q", desired.Root, names, err, want)
	}
	for _, folder := range []string{desired.State, desired.Logs} {
		if names, err := d.List(folder); err != nil || len(names) > 0 {
			t.Errorf("%s has %q (%v)", folder, names, err)
		}
	}
	if d.Exists(desired.ContainerdState) {
		t.Errorf("%s exists", desired.ContainerdState)
	}
	list, err := w.Host().Services.List(t.Context(), desired.Services())
	if err != nil || len(list) > 0 {
		t.Errorf("the host has services %+v (%v)", list, err)
	}
}

func TestPreparePullsSandboxImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := daemontest.NewHost(t, sim.WindowsOptions{})
		c := daemontest.NewPayload("1")
		for range 2 {
			if result, err := withImage(t, w, c, desired.DefaultSandboxImage); err != nil || result.Rebooting != "" {
				t.Fatalf("Prepare() = %+v, %v", result, err)
			}
			expectOnlyContent(t, w)
		}
		if pinned, found := w.Images()[desired.DefaultSandboxImage]; !found || !pinned || len(w.Pulls()) != 1 {
			t.Errorf("the host has images %v after pulls of %q, want the sandbox image, pinned, pulled once", w.Images(), w.Pulls())
		}
		if !w.Host().Disk.Exists(desired.ContainerdRoot) {
			t.Errorf("%s does not exist", desired.ContainerdRoot)
		}
		daemontest.MustJoin(t, w, r)
		daemontest.ExpectJoined(t, w, r)
		w.PowerOff()
	})
}

// TestFailedPullLeavesNoService checks the message, that nothing runs on, and that the host can be prepared without the image.
func TestFailedPullLeavesNoService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := daemontest.NewHost(t, sim.WindowsOptions{})
		w.RefuseImage(desired.DefaultSandboxImage, &cri.Error{Code: 2, Message: "dial tcp: lookup mcr.microsoft.com: no such host (https://user:secret@mcr.microsoft.com/?token=x)"})
		_, err := withImage(t, w, daemontest.NewPayload("1"), desired.DefaultSandboxImage)
		for _, part := range []string{desired.DefaultSandboxImage, "registry mcr.microsoft.com", "no such host", "machines then pull it when they join"} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("the error lacks %q: %v", part, err)
			}
		}
		if err != nil && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "token")) {
			t.Errorf("the error has a secret: %v", err)
		}
		list, err := w.Host().Services.List(t.Context(), desired.Services())
		if err != nil || len(list) > 0 {
			t.Errorf("the host has services %+v (%v)", list, err)
		}
		if _, err := prepare(w, desired.ContainersFeature); err != nil {
			t.Error(err)
		}
		expectOnlyContent(t, w)
		w.PowerOff()
	})
}

// TestInterruptedPreparationConverges cuts the power at each change, and prepares the host again: with the image, and without.
func TestInterruptedPreparationConverges(t *testing.T) {
	for name, image := range map[string]string{"with the image": desired.DefaultSandboxImage, "without": ""} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for at, isCut := 0, true; isCut && !t.Failed(); at++ {
					w, _ := daemontest.NewHost(t, sim.WindowsOptions{NoQuirks: "the cuts are counted"})
					c := daemontest.NewPayload("1")
					w.CutPowerAfter(at)
					_, err := withImage(t, w, c, desired.DefaultSandboxImage)
					isCut = err != nil
					w.PowerCut()
					w.PowerOn()
					isBegun := w.Host().Disk.Exists(desired.PreparedImage)
					if image == "" {
						_, err = prepare(w, desired.ContainersFeature)
					} else {
						_, err = withImage(t, w, c, image)
					}
					if err != nil {
						t.Errorf("cut at %d: %v", at, err)
					}
					if isBegun || image != "" {
						expectOnlyContent(t, w)
					}
					w.PowerOff()
				}
			})
		})
	}
}

// TestContainerdThatDoesNotStartIsReported damages its program.
func TestContainerdThatDoesNotStartIsReported(t *testing.T) {
	w, _ := daemontest.NewHost(t, sim.WindowsOptions{Damaged: "containerd.exe", NoQuirks: "one fault at a time"})
	_, err := withImage(t, w, daemontest.NewPayload("1"), desired.DefaultSandboxImage)
	daemontest.ExpectCode(t, err, wicdapi.CodeServiceFailed)
	if list, err := w.Host().Services.List(t.Context(), desired.Services()); err != nil || len(list) > 0 {
		t.Errorf("the host has services %+v (%v)", list, err)
	}
}

func TestPrepareRefusesForeignContainerd(t *testing.T) {
	w, _ := daemontest.NewHost(t, sim.WindowsOptions{})
	if _, err := w.Host().Services.Put(t.Context(), desired.Service{Name: desired.ContainerdService, Command: `C:\other\containerd.exe`}); err != nil {
		t.Fatal(err)
	}
	_, err := withImage(t, w, daemontest.NewPayload("1"), desired.DefaultSandboxImage)
	daemontest.ExpectCode(t, err, wicdapi.CodeServiceConflict)
	if w.Host().Disk.Exists(desired.PreparedImage) {
		t.Error("the host is marked as prepared")
	}
}

func TestPrepareRefusesOtherServices(t *testing.T) {
	w, r := daemontest.NewHost(t, sim.WindowsOptions{})
	_, err := prepareWith(w, wicdapi.PrepareRequest{Containerd: &r.Desired})
	daemontest.ExpectCode(t, err, wicdapi.CodeRequestInvalid)
	if !strings.Contains(err.Error(), desired.KubeletService) {
		t.Errorf("the error is %v", err)
	}
}

// TestLeaveRemovesImageOfPreparedHost fails the first join of a prepared host early, and has it leave.
func TestLeaveRemovesImageOfPreparedHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := daemontest.NewHost(t, sim.WindowsOptions{})
		if _, err := withImage(t, w, daemontest.NewPayload("1"), desired.DefaultSandboxImage); err != nil {
			t.Fatal(err)
		}
		layer := desired.ContainerdRoot + `\io.containerd.snapshotter.v1.windows\snapshots\1\blank.vhdx`
		if _, err := w.Host().Disk.WriteFile(layer, "a layer"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Host().Disk.WriteFile(desired.State+`\restarts.json`, "{}"); err != nil { // of a join that failed before it declared services
			t.Fatal(err)
		}
		daemontest.MustLeave(t, w, r.Cluster)
		for _, name := range []string{desired.ContainerdData, desired.PreparedImage, desired.Store} {
			if w.Host().Disk.Exists(name) {
				t.Errorf("%s is left", name)
			}
		}
		w.PowerOff()
	})
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
	if !strings.Contains(err.Error(), "not a node") {
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
