package sim_test

import (
	"context"
	"encoding/pem"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/node/cri"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sim/contract"
	"github.com/windows-machine-config/wmco/internal/testing/sim/servers"
)

// actor is the program of a service that a test can observe and end.
type actor struct {
	ends chan uint32

	mu  sync.Mutex
	run *sim.Process
}

func (a *actor) program(ctx context.Context, p sim.Process) (code uint32) {
	a.set(&p)
	defer a.set(nil)
	select {
	case <-ctx.Done():
	case code = <-a.ends:
	}
	return code
}

func (a *actor) set(p *sim.Process) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.run = p
}

// process returns the process, which starts a moment after the service.
func (a *actor) process(t *testing.T) *sim.Process {
	t.Helper()
	for end := time.Now().Add(waitTimeout); time.Now().Before(end); time.Sleep(time.Millisecond) {
		a.mu.Lock()
		p := a.run
		a.mu.Unlock()
		if p != nil {
			return p
		}
	}
	t.Fatal("the process does not start")
	return nil
}

// noQuirksReason is why a Windows of contract tests has no quirks.
const noQuirksReason = "its contract is also that of Wine, which has no quirks"

// mustNewComputer returns a computer with the program of contract tests.
func mustNewComputer(t *testing.T, programs map[string]sim.Program) *sim.Windows {
	t.Helper()
	w := sim.NewWindows(sim.WindowsOptions{Root: t.TempDir(), RestartDelay: 10 * time.Millisecond, Programs: programs, NoQuirks: noQuirksReason})
	t.Cleanup(w.PowerOff)
	if _, err := w.Disk().WriteFile(`C:\programs\runs.exe`, "a program"); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestSimulatedServicesKeepTheContract(t *testing.T) {
	contract.Services(t, func(t *testing.T) contract.ServicesFixture {
		first := &actor{ends: make(chan uint32)}
		w := mustNewComputer(t, map[string]sim.Program{contract.First: first.program})
		return contract.ServicesFixture{
			Services: w.Host().Services,
			Changes:  w.Host().Changes,
			Runs:     `C:\programs\runs.exe`,
			AlsoRuns: `C:\programs\runs.exe --say "two words"`,
			Missing:  `C:\programs\missing.exe`,
			Crash:    func(_ *testing.T, name string) { w.Crash(name) },
			Edits:    edits(w),
			Delete:   func(_ *testing.T, name string) { w.DeleteService(name) },
			DeleteItself: func(t *testing.T, name string) {
				if err := first.process(t).Host.Services.Delete(t.Context(), name); err != nil {
					t.Error(err)
				}
			},
			End:       func(_ *testing.T, _ string, code uint32) { first.ends <- code },
			Recovery:  10 * time.Millisecond,
			Variables: func(t *testing.T, _ string) map[string]string { return first.process(t).Environment },
		}
	})
}

func edits(w *sim.Windows) map[string]func(*testing.T, string) {
	all := map[string]func(*testing.T, string){"start type": func(_ *testing.T, name string) { w.Disable(name) }}
	for what, edit := range map[string]func(*desired.Service){
		"program":      func(s *desired.Service) { s.Command = `C:\programs\other.exe` },
		"arguments":    func(s *desired.Service) { s.Command += " --more" },
		"description":  func(s *desired.Service) { s.Description += ", edited" },
		"dependencies": func(s *desired.Service) { s.DependsOn = nil },
		"environment":  func(s *desired.Service) { s.Environment = map[string]string{"OTHER": "x"} },
	} {
		all[what] = func(_ *testing.T, name string) { w.Edit(name, edit) }
	}
	return all
}

func TestSimulatedProbesKeepTheContract(t *testing.T) {
	contract.Probes(t, func(t *testing.T) []contract.ProbesFixture {
		w := mustNewComputer(t, nil)
		h := w.Host()
		s := desired.Service{Name: "one", Command: `C:\programs\runs.exe`, Ready: "http://127.0.0.1:1/healthz"}
		if _, err := h.Services.Put(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if err := h.Services.Start(t.Context(), "one"); err != nil {
			t.Fatal(err)
		}
		return []contract.ProbesFixture{{
			Probes: h.Probes, Address: s.Ready, Absent: "http://127.0.0.1:2/healthz", Set: func(healthy bool) { w.Silence("one", !healthy) },
		}}
	})
}

func TestSimulatedImagesKeepTheContract(t *testing.T) {
	contract.Images(t, func(t *testing.T) contract.ImagesFixture {
		w := mustNewComputer(t, nil)
		h := w.Host()
		if _, err := h.Services.Put(t.Context(), desired.Service{Name: desired.ContainerdService, Command: `C:\programs\runs.exe`}); err != nil {
			t.Fatal(err)
		}
		if err := h.Services.Start(t.Context(), desired.ContainerdService); err != nil {
			t.Fatal(err)
		}
		const absent = "registry.test/absent:1"
		w.RefuseImage(absent, &cri.Error{Code: cri.NotFound, Message: "not found"})
		return contract.ImagesFixture{
			Runtime: h.Runtime, Good: "registry.test/good:1", Absent: absent,
			Stop: func() {
				if err := h.Services.Stop(t.Context(), desired.ContainerdService); err != nil {
					t.Error(err)
				}
			},
		}
	})
}

func TestSimulatedSystemKeepsTheContract(t *testing.T) {
	for name, securesItself := range map[string]bool{"hypervisor of Hyper-V": false, "virtualization-based security": true} {
		t.Run(name, func(t *testing.T) {
			contract.System(t, func(t *testing.T) contract.SystemFixture {
				o := sim.WindowsOptions{Root: t.TempDir(), NoQuirks: noQuirksReason, Features: map[string]wicdapi.FeatureState{
					desired.ContainersFeature: wicdapi.FeatureDisabled, desired.HyperVFeature: wicdapi.FeatureUnknown,
				}}
				if securesItself {
					o.Virtualization = wicdapi.Virtualization{Hypervisor: "Microsoft Hv", HyperV: true}
				}
				w := sim.NewWindows(o)
				t.Cleanup(w.PowerOff)
				if err := os.MkdirAll(w.Disk().Local(`C:\test`), 0o700); err != nil {
					t.Fatal(err)
				}
				h := w.Host()
				return contract.SystemFixture{System: h.System, Disk: h.Disk, Folder: `C:\test`, Feature: "Containers", OtherHypervisor: securesItself}
			})
		})
	}
}

// TestHyperVRunsAfterNextStart expects a machine without processor support to have the feature but no Hyper-V.
func TestHyperVRunsAfterNextStart(t *testing.T) {
	for _, can := range []bool{true, false} {
		w := sim.NewWindows(sim.WindowsOptions{Root: t.TempDir(), NoQuirks: "the next start is enough", Virtualization: wicdapi.Virtualization{Processor: can}})
		t.Cleanup(w.PowerOff)
		if reboot, err := w.Host().System.EnableFeature(t.Context(), desired.HyperVFeature); err != nil || !reboot {
			t.Fatal(reboot, err)
		}
		for _, want := range []bool{false, can} {
			facts, err := w.Host().System.Facts(t.Context())
			if err != nil || facts.Virtualization.HyperV != want {
				t.Errorf("processor support %v: Hyper-V runs: %v, %v; want %v", can, facts.Virtualization.HyperV, err, want)
			}
			w.Restart()
		}
	}
}

func TestSimulatedRightsKeepTheContract(t *testing.T) {
	contract.Rights(t, func(t *testing.T) contract.RightsFixture {
		w := mustNewComputer(t, nil)
		h := w.Host()
		if _, err := h.Disk.MakeFolder(`C:\test`); err != nil {
			t.Fatal(err)
		}
		must := func(t *testing.T, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		return contract.RightsFixture{
			Rights: h.Rights, Disk: h.Disk, Folder: `C:\test`,
			Open:        func(t *testing.T, folder string) { must(t, w.Open(folder)) },
			ChangeOwner: func(t *testing.T, name string) { must(t, w.ChangeOwner(name)) },
			Link:        func(t *testing.T, to, name string) { must(t, os.Symlink(w.Disk().Local(to), w.Disk().Local(name))) },
		}
	})
}

func TestSimulatedEnvironmentKeepsTheContract(t *testing.T) {
	contract.Environment(t, func(t *testing.T) contract.EnvironmentFixture {
		w := mustNewComputer(t, nil)
		return contract.EnvironmentFixture{
			Environment: w.Host().Environment,
			Give:        func(_ *testing.T, name, value string) { w.SetVariable(name, value) },
			All:         func(*testing.T) map[string]string { return w.Environment() },
		}
	})
}

func TestSimulatedCertificatesKeepTheContract(t *testing.T) {
	contract.Certificates(t, func(t *testing.T) contract.CertificatesFixture {
		return contract.CertificatesFixture{Certificates: mustNewComputer(t, nil).Host().Certificates}
	})
}

func TestServiceHasMachineEnvironmentOfLastStart(t *testing.T) {
	program := &actor{}
	w := mustNewComputer(t, map[string]sim.Program{"one": program.program})
	w.SetVariable("Path", `C:\Windows`)
	w.Restart()
	h := w.Host()
	item := desired.Service{Name: "one", Command: `C:\programs\runs.exe`, Environment: map[string]string{"no_proxy": "its own"}}
	if _, err := h.Services.Put(t.Context(), item); err != nil {
		t.Fatal(err)
	}
	machine := map[string]string{"HTTP_PROXY": "http://proxy.example", "NO_PROXY": "the machine's"}
	if _, err := h.Environment.Set(t.Context(), machine, nil); err != nil {
		t.Fatal(err)
	}
	if err := h.Services.Start(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"Path": `C:\Windows`, "no_proxy": "its own"}
	for _, when := range []string{"before the restart", "after the restart"} {
		got := maps.Clone(program.process(t).Environment)
		delete(got, "SystemRoot")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
		w.Restart() // the service starts automatically
		want["HTTP_PROXY"] = machine["HTTP_PROXY"]
	}
}

func TestPowerCutLeavesEachVariableOldOrNew(t *testing.T) {
	for cut, want := range []map[string]string{
		{"ONE": "old", "THREE": "old"},
		{"ONE": "new", "THREE": "old"},
		{"ONE": "new", "TWO": "new", "THREE": "old"},
		{"ONE": "new", "TWO": "new"},
	} {
		w := mustNewComputer(t, nil)
		w.SetVariable("ONE", "old")
		w.SetVariable("THREE", "old")
		before := w.Changes()
		w.CutPowerAfter(cut)
		changed, err := w.Host().Environment.Set(t.Context(), map[string]string{"ONE": "new", "TWO": "new"}, []string{"THREE"})
		if all := cut == 3; all != (err == nil) || !all && !errors.Is(err, sim.ErrPower) || len(changed) != cut {
			t.Errorf("cut after %d changes: %q changed, %v", cut, changed, err)
		}
		got := w.Environment()
		delete(got, "SystemRoot")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("cut after %d changes (-want +got):\n%s", cut, diff)
		}
		if n := w.Changes() - before; n != min(cut+1, 3) {
			t.Errorf("cut after %d changes: %d were counted", cut, n)
		}
	}
}

func TestInterruptedTrustChangeChangesNothing(t *testing.T) {
	cluster, err := servers.NewCluster()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	block, _ := pem.Decode([]byte(cluster.CA))
	w := mustNewComputer(t, nil)
	expect := func(want ...string) {
		t.Helper()
		if got, err := w.Host().Certificates.List(t.Context()); err != nil || !slices.Equal(got, want) {
			t.Errorf("List() = %q, %v, want %q", got, err, want)
		}
	}
	hash := hashOf(block.Bytes)
	for _, step := range []struct {
		change        func() (bool, error)
		before, after []string
	}{
		{func() (bool, error) { return w.Host().Certificates.Add(t.Context(), block.Bytes) }, nil, []string{hash}},
		{func() (bool, error) { return w.Host().Certificates.Remove(t.Context(), hash) }, []string{hash}, nil},
	} {
		w.CutPowerAfter(0)
		if changed, err := step.change(); changed || !errors.Is(err, sim.ErrPower) {
			t.Errorf("during a cut: %v, %v, want ErrPower", changed, err)
		}
		w.PowerOn()
		expect(step.before...)
		w.FailNext("certificate " + hash)
		if changed, err := step.change(); changed || err == nil {
			t.Errorf("a simulated failure: %v, %v", changed, err)
		}
		expect(step.before...)
		if changed, err := step.change(); !changed || err != nil {
			t.Errorf("after the failure: %v, %v", changed, err)
		}
		expect(step.after...)
	}
}

func TestSimulatedContainersKeepTheContract(t *testing.T) {
	contract.Containers(t, func(t *testing.T) contract.ContainersFixture {
		w := mustNewComputer(t, nil)
		return contract.ContainersFixture{
			Containers: w.Host().Containers, Disk: w.Host().Disk, Folder: `C:\folder`,
			Start: func(t *testing.T, path string) {
				if _, err := w.Disk().WriteFile(path, "a program"); err != nil {
					t.Fatal(err)
				}
				w.AddProgram(path)
			},
			Running:   func(_ *testing.T, path string) bool { return slices.Contains(w.Remnants(), path) },
			Hang:      func(*testing.T) { w.SetHCS(sim.HCS{Hangs: true}) },
			Container: func(_ *testing.T, name string) { w.AddContainer(name, `C:\shim.exe`) },
			Network: func(*testing.T) string {
				const id = "0F1a2b3c-0000-4000-8000-000000000001"
				w.AddNetwork(id)
				return id
			},
			Layer: func(t *testing.T, folder string) {
				if err := w.AddLayer(folder); err != nil {
					t.Fatal(err)
				}
				if err := w.Host().Disk.RemoveAll(folder); !errors.Is(err, fs.ErrPermission) {
					t.Errorf("removing the layer with ordinary calls: %v", err)
				}
			},
		}
	})
}

func TestSimulatedNextStartKeepsTheContract(t *testing.T) {
	contract.NextStart(t, func(t *testing.T) contract.NextStartFixture {
		w := mustNewComputer(t, nil)
		h := w.Host()
		f := contract.NextStartFixture{NextStart: h.NextStart, System: h.System}
		f.Await = func(*testing.T) { w.WaitFor("updates are installed") }
		f.Restart = func(t *testing.T) {
			w.Restart()
			after := w.Host()
			*f.NextStart.(*latest), *f.System.(*latestSystem) = latest{after.NextStart}, latestSystem{after.System}
		}
		f.NextStart, f.System = &latest{h.NextStart}, &latestSystem{h.System}
		return f
	})
}

// latest and latestSystem are ports of the computer since its last start.
type (
	latest       struct{ hostapi.NextStart }
	latestSystem struct{ hostapi.System }
)
