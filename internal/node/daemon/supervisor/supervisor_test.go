package supervisor_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// manualChanges returns manual changes to services.
func manualChanges() map[string]func(t *testing.T, w *sim.Windows, service string) {
	edit := func(change func(*desired.Service)) func(*testing.T, *sim.Windows, string) {
		return func(_ *testing.T, w *sim.Windows, service string) { w.Edit(service, change) }
	}
	return map[string]func(*testing.T, *sim.Windows, string){
		"stopped": func(t *testing.T, w *sim.Windows, service string) { daemontest.MustStop(t, w, service) },
		"killed":  func(_ *testing.T, w *sim.Windows, service string) { w.Crash(service) },
		"deleted": func(_ *testing.T, w *sim.Windows, service string) { w.DeleteService(service) },
		"stopped and deleted": func(t *testing.T, w *sim.Windows, service string) {
			daemontest.MustStop(t, w, service)
			w.DeleteService(service)
		},
		"disabled": func(_ *testing.T, w *sim.Windows, service string) { w.Disable(service) },
		"disabled and stopped": func(t *testing.T, w *sim.Windows, service string) {
			w.Disable(service)
			daemontest.MustStop(t, w, service)
		},
		"program":      edit(func(s *desired.Service) { s.Command = `C:\other.exe` }),
		"arguments":    edit(func(s *desired.Service) { s.Command += " --v=9" }),
		"dependencies": edit(func(s *desired.Service) { s.DependsOn = []string{"Tcpip"} }),
		"environment":  edit(func(s *desired.Service) { s.Environment = map[string]string{"HTTP_PROXY": "http://mine"} }),
		"description":  edit(func(s *desired.Service) { s.Description = "mine" }),
		"killed, twice": func(_ *testing.T, w *sim.Windows, service string) {
			w.Crash(service)
			time.Sleep(time.Second)
			w.Crash(service)
		},
	}
}

// newSupervised returns a node whose services WICD has supervised for an hour. Windows restarts none of them.
func newSupervised(t *testing.T, programs map[string]sim.Program) (*sim.Windows, wicdapi.JoinRequest) {
	t.Helper()
	w, r := daemontest.NewNode(t, sim.WindowsOptions{NoQuirks: daemontest.TimingMeasured, RestartDelay: daemontest.Never, Programs: programs})
	daemontest.StartRun(t, w.Host())
	time.Sleep(time.Hour)
	return w, r
}

func TestManualServiceChangesAreReverted(t *testing.T) {
	for name, change := range manualChanges() {
		for _, service := range []string{"containerd", "kubelet"} {
			t.Run(name+" "+service, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w, r := newSupervised(t, nil)
					change(t, w, service)
					time.Sleep(daemontest.RestoredWithin)
					daemontest.ExpectJoined(t, w, r)
					if w.Disabled(service) {
						t.Error("it does not start with Windows")
					}
					time.Sleep(time.Minute) // until the restart is in the metrics
					changes := w.Changes()
					time.Sleep(time.Hour)
					if n := w.Changes(); n != changes {
						t.Errorf("%d more changes were made after it was restored", n-changes)
					}
				})
			})
		}
	}
}

// A change to one service is reverted even if another service cannot be restored.
func TestServiceIsRestoredWhileAnotherCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dies atomic.Bool
		program := func(ctx context.Context, _ sim.Process) uint32 {
			if !dies.Load() {
				<-ctx.Done()
			}
			return 1
		}
		w, r := newSupervised(t, map[string]sim.Program{"kubelet": program})
		dies.Store(true)
		w.Crash("kubelet")
		time.Sleep(10 * time.Minute)
		w.Edit("containerd", func(s *desired.Service) { s.Command += " --log-level debug" })
		time.Sleep(daemontest.RestoredWithin)
		if got := w.Service("containerd"); got.Command != r.Desired.Services[0].Command || got.State != hostapi.Running {
			t.Errorf("containerd is %s, with command %q", got.State, got.Command)
		}
		dies.Store(false)
		time.Sleep(2 * time.Minute)
		daemontest.ExpectJoined(t, w, r)
	})
}

// slowServices is a busy service manager.
type slowServices struct{ hostapi.Services }

func (s slowServices) List(ctx context.Context, names []string) ([]hostapi.Service, error) {
	time.Sleep(4 * time.Second)
	return s.Services.List(ctx, names)
}

// The pause after the second crash ends while a check of the services is still running.
func TestBackoffThatEndsDuringCheckIsNotMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := daemontest.NewNode(t, sim.WindowsOptions{NoQuirks: daemontest.TimingMeasured, RestartDelay: daemontest.Never})
		h := w.Host()
		h.Services = slowServices{h.Services}
		daemontest.StartRun(t, h)
		time.Sleep(time.Hour)
		for range 2 {
			w.Crash("kubelet")
			time.Sleep(30 * time.Second)
		}
		daemontest.ExpectJoined(t, w, r)
	})
}

func TestIdleSupervisorWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := daemontest.NewHost(t, sim.WindowsOptions{NoQuirks: daemontest.TimingMeasured})
		r.Desired.WindowsUpdates = desired.UpdatesUnmanaged // otherwise, WICD stores a report a few times a day
		daemontest.MustJoin(t, w, r)
		daemontest.StartRun(t, w.Host())
		time.Sleep(time.Minute)
		changes := w.Changes()
		time.Sleep(24 * time.Hour)
		if n := w.Changes(); n != changes {
			t.Errorf("%d changes were made within a day", n-changes)
		}
		daemontest.ExpectJoined(t, w, r)
	})
}

// The original operator distinguished an empty list from none, and restarted the service at every check.
func TestEquivalentDeclarationIsNoDrift(t *testing.T) {
	for name, dependsOn := range map[string][]string{"empty": {}, "none": nil, "other order and case": {"CSI-proxy", "containerd"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, r := daemontest.NewHost(t, sim.WindowsOptions{NoQuirks: daemontest.TimingMeasured, RestartDelay: daemontest.Never})
				r.Desired.Services = append(r.Desired.Services, daemontest.Service("csi-proxy", r.Desired.Services[0].Command))
				r.Desired.Services[1].DependsOn = dependsOn
				if len(dependsOn) > 0 {
					r.Desired.Services[1].DependsOn = []string{"containerd", "csi-proxy"}
				}
				daemontest.MustJoin(t, w, r)
				daemontest.StartRun(t, w.Host())
				time.Sleep(time.Minute)
				pid := w.Service("kubelet").PID
				w.Edit("kubelet", func(s *desired.Service) { s.DependsOn = dependsOn })
				time.Sleep(time.Hour)
				if w.Service("kubelet").PID != pid {
					t.Error("the kubelet was restarted")
				}
			})
		})
	}
}

func TestWICDServiceIsRestoredWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := newSupervised(t, nil)
		pid := w.Service(api.WICDService).PID
		w.Edit(api.WICDService, func(s *desired.Service) { s.Command = `C:\other.exe` })
		w.Disable(api.WICDService)
		time.Sleep(daemontest.RestoredWithin)
		daemontest.ExpectJoined(t, w, r)
		if w.Service(api.WICDService).PID != pid || w.Disabled(api.WICDService) {
			t.Error("it was stopped, or does not start with Windows")
		}
	})
}

func TestFailedServiceActionIsRetriedInSeconds(t *testing.T) {
	edit := func(w *sim.Windows) { w.Edit("kubelet", func(s *desired.Service) { s.Command += " --v=9" }) }
	for operation, change := range map[string]func(w *sim.Windows){
		"start kubelet": func(w *sim.Windows) { w.Crash("kubelet") },
		"stop kubelet":  edit,
		"put kubelet":   edit,
	} {
		t.Run(operation, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, r := newSupervised(t, nil)
				w.FailNext(operation)
				change(w)
				time.Sleep(daemontest.RestoredWithin)
				daemontest.ExpectJoined(t, w, r)
			})
		})
	}
}

// There is no notification for a service that did not run before and does not start.
func TestFailedInitialStartIsRetriedInSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := daemontest.NewNode(t, sim.WindowsOptions{NoQuirks: daemontest.TimingMeasured, RestartDelay: daemontest.Never})
		daemontest.MustStop(t, w, "kubelet")
		w.FailNext("start kubelet")
		daemontest.StartRun(t, w.Host())
		time.Sleep(daemontest.RestoredWithin)
		daemontest.ExpectJoined(t, w, r)
	})
}

// TestStoppedServiceIsStartedImmediately: also after WICD's first attempt to watch the services has failed.
func TestStoppedServiceIsStartedImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := daemontest.NewNode(t, sim.WindowsOptions{NoQuirks: daemontest.TimingMeasured, RestartDelay: daemontest.Never})
		w.FailNext("watch")
		daemontest.StartRun(t, w.Host())
		time.Sleep(time.Hour)
		w.Crash("kubelet")
		time.Sleep(10 * time.Millisecond)
		daemontest.ExpectJoined(t, w, r)
	})
}

// An administrator who stops WICD has a reason: the node continues with Windows alone. Starting WICD, or a join if it was deleted, repairs what
// changed meanwhile.
func TestNodeWorksWithoutWICD(t *testing.T) {
	for name, test := range map[string]struct {
		stop func(*testing.T, *sim.Windows)
		back func(*testing.T, *sim.Windows, wicdapi.JoinRequest)
	}{
		"stopped, and started by hand": {
			func(*testing.T, *sim.Windows) {},
			func(t *testing.T, w *sim.Windows, _ wicdapi.JoinRequest) {
				if err := w.Host().Services.Start(t.Context(), api.WICDService); err != nil {
					t.Error(err)
				}
			},
		},
		"stopped until Windows starts": {
			func(*testing.T, *sim.Windows) {},
			func(_ *testing.T, w *sim.Windows, _ wicdapi.JoinRequest) { w.Restart() },
		},
		"deleted until a join": {
			func(_ *testing.T, w *sim.Windows) { w.DeleteService(api.WICDService) },
			func(t *testing.T, w *sim.Windows, r wicdapi.JoinRequest) { daemontest.MustJoin(t, w, r) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, r := daemontest.NewNode(t, sim.WindowsOptions{NoQuirks: daemontest.TimingMeasured, Programs: map[string]sim.Program{api.WICDService: sim.WICD}})
				time.Sleep(time.Minute)
				daemontest.MustStop(t, w, api.WICDService)
				test.stop(t, w)
				kubelet := w.Service("kubelet").PID
				time.Sleep(time.Hour)
				if got := w.Service("kubelet"); got.PID != kubelet || w.Service(api.WICDService).State == hostapi.Running {
					t.Errorf("the kubelet was process %d and is %d; WICD is %s", kubelet, got.PID, w.Service(api.WICDService).State)
				}
				w.Crash("kubelet")
				time.Sleep(time.Minute)
				if got := w.Service("kubelet"); got.State != hostapi.Running {
					t.Errorf("Windows leaves the kubelet %s", got.State)
				}
				w.Edit("kubelet", func(s *desired.Service) { s.Command += " --v=9" })
				test.back(t, w, r)
				time.Sleep(daemontest.RestoredWithin)
				daemontest.ExpectJoined(t, w, r)
			})
		})
	}
}

func TestCrashingServiceIsRestartedWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var starts atomic.Int64
		dies := func(context.Context, sim.Process) uint32 {
			starts.Add(1)
			return 1
		}
		w, _ := daemontest.NewNode(t, sim.WindowsOptions{NoQuirks: daemontest.TimingMeasured, RestartDelay: 24 * time.Hour, Programs: map[string]sim.Program{"kubelet": dies}})
		daemontest.StartRun(t, w.Host())
		time.Sleep(10 * time.Minute)
		if n := starts.Load(); n < 10 || n > 60 {
			t.Errorf("it was started %d times in ten minutes", n)
		}
	})
}

func TestJoinAndServiceDoNotInterfere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := daemontest.NewNode(t, sim.WindowsOptions{NoQuirks: daemontest.TimingMeasured, RestartDelay: 24 * time.Hour})
		daemontest.StartRun(t, w.Host())
		for n := range 20 {
			r.Desired.Files[0].Content += " "
			r.Desired.Version = string(rune('a' + n))
			daemontest.MustJoin(t, w, r)
			daemontest.ExpectJoined(t, w, r)
			time.Sleep(time.Duration(n) * time.Second)
		}
		time.Sleep(daemontest.AfterServiceCheck)
		daemontest.ExpectJoined(t, w, r)
	})
}
