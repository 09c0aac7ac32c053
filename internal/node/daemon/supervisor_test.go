package daemon_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// never is longer than any test: the simulated service manager restarts nothing on its own.
const never = 24 * 365 * time.Hour

// restoredWithin is how soon a manual change to a service must be reverted.
const restoredWithin = 5 * time.Second

// harms returns manual changes to services.
func harms() map[string]func(t *testing.T, w *sim.Windows, service string) {
	edit := func(change func(*desired.Service)) func(*testing.T, *sim.Windows, string) {
		return func(_ *testing.T, w *sim.Windows, service string) { w.Edit(service, change) }
	}
	stop := func(t *testing.T, w *sim.Windows, service string) {
		if err := w.Host().Services.Stop(t.Context(), service); err != nil {
			t.Fatal(err)
		}
	}
	return map[string]func(*testing.T, *sim.Windows, string){
		"stopped": stop,
		"killed":  func(_ *testing.T, w *sim.Windows, service string) { w.Crash(service) },
		"deleted": func(_ *testing.T, w *sim.Windows, service string) { w.DeleteService(service) },
		"stopped and deleted": func(t *testing.T, w *sim.Windows, service string) {
			stop(t, w, service)
			w.DeleteService(service)
		},
		"disabled": func(_ *testing.T, w *sim.Windows, service string) { w.Disable(service) },
		"disabled and stopped": func(t *testing.T, w *sim.Windows, service string) {
			w.Disable(service)
			stop(t, w, service)
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

func TestManualServiceChangesAreReverted(t *testing.T) {
	for name, harm := range harms() {
		for _, service := range []string{"containerd", "kubelet"} {
			t.Run(name+" "+service, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w, r := withoutCluster(t, sim.WindowsOptions{RestartDelay: never})
					startRun(t, w)
					time.Sleep(time.Hour)
					harm(t, w, service)
					time.Sleep(restoredWithin)
					expectJoined(t, w, r)
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
func TestAServiceIsRestoredWhileAnotherKeepsDying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dies atomic.Bool
		program := func(ctx context.Context, _ sim.Process) uint32 {
			if !dies.Load() {
				<-ctx.Done()
			}
			return 1
		}
		w, r := withoutCluster(t, sim.WindowsOptions{RestartDelay: never, Programs: map[string]sim.Program{"kubelet": program}})
		startRun(t, w)
		time.Sleep(time.Minute)
		dies.Store(true)
		w.Crash("kubelet")
		time.Sleep(10 * time.Minute)
		w.Edit("containerd", func(s *desired.Service) { s.Command += " --log-level debug" })
		time.Sleep(restoredWithin)
		if got, want := w.Service("containerd"), known(r.Desired.Services[0]); got.Command != want.Command || got.State != hostapi.Running {
			t.Errorf("containerd is %s, with command %q", got.State, got.Command)
		}
		dies.Store(false)
		time.Sleep(2 * time.Minute)
		expectJoined(t, w, r)
	})
}

// slowServices is a busy service manager.
type slowServices struct{ hostapi.Services }

func (s slowServices) List(ctx context.Context, names []string) ([]hostapi.Service, error) {
	time.Sleep(4 * time.Second)
	return s.Services.List(ctx, names)
}

// The pause after the second crash ends while a check of the services is still running.
func TestAPauseThatEndsDuringALookIsNotMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := withoutCluster(t, sim.WindowsOptions{RestartDelay: never})
		h := w.Host()
		h.Services = slowServices{h.Services}
		runOn(t, h)
		time.Sleep(time.Hour)
		for range 2 {
			w.Crash("kubelet")
			time.Sleep(30 * time.Second)
		}
		expectJoined(t, w, r)
	})
}

func TestNothingIsWrittenAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := withoutCluster(t, sim.WindowsOptions{})
		startRun(t, w)
		time.Sleep(time.Minute)
		changes := w.Changes()
		time.Sleep(24 * time.Hour)
		if n := w.Changes(); n != changes {
			t.Errorf("%d changes were made within a day", n-changes)
		}
		expectJoined(t, w, r)
	})
}

// The original operator distinguished an empty list from none, and restarted the service at every check.
func TestTheSameDeclarationInOtherWordsIsNoDrift(t *testing.T) {
	for name, dependsOn := range map[string][]string{"empty": {}, "none": nil, "other order and case": {"CSI-proxy", "containerd"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, c := newWindows(t, sim.WindowsOptions{Kind: soon, RestartDelay: never}), newCargo("1")
				mustSend(t, w, c)
				r := newRequest(c)
				r.Desired.Services = append(r.Desired.Services, ours("csi-proxy", r.Desired.Services[0].Command))
				r.Desired.Services[1].DependsOn = dependsOn
				if len(dependsOn) > 0 {
					r.Desired.Services[1].DependsOn = []string{"containerd", "csi-proxy"}
				}
				mustJoin(t, w, r)
				startRun(t, w)
				time.Sleep(time.Minute)
				pid := w.Service("kubelet").PID
				w.Edit("kubelet", func(s *desired.Service) { s.DependsOn = dependsOn })
				time.Sleep(time.Hour)
				if w.Service("kubelet").PID != pid {
					t.Error("the kubelet was started again")
				}
			})
		})
	}
}

func TestOurOwnServiceIsRestoredWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := withoutCluster(t, sim.WindowsOptions{RestartDelay: never})
		startRun(t, w)
		time.Sleep(time.Minute)
		pid := w.Service(api.WICDService).PID
		w.Edit(api.WICDService, func(s *desired.Service) { s.Command = `C:\other.exe` })
		w.Disable(api.WICDService)
		time.Sleep(restoredWithin)
		expectJoined(t, w, r)
		if w.Service(api.WICDService).PID != pid || w.Disabled(api.WICDService) {
			t.Error("it was stopped, or does not start with Windows")
		}
	})
}

func TestFailedServiceActionIsRetriedInSeconds(t *testing.T) {
	edit := func(w *sim.Windows) { w.Edit("kubelet", func(s *desired.Service) { s.Command += " --v=9" }) }
	for operation, harm := range map[string]func(w *sim.Windows){
		"start kubelet": func(w *sim.Windows) { w.Crash("kubelet") },
		"stop kubelet":  edit,
		"put kubelet":   edit,
	} {
		t.Run(operation, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, r := withoutCluster(t, sim.WindowsOptions{RestartDelay: never})
				startRun(t, w)
				time.Sleep(time.Hour)
				w.FailNext(operation)
				harm(w)
				time.Sleep(restoredWithin)
				expectJoined(t, w, r)
			})
		})
	}
}

// There is no notification for a service that did not run before and does not start.
func TestFailedInitialStartIsRetriedInSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := withoutCluster(t, sim.WindowsOptions{RestartDelay: never})
		if err := w.Host().Services.Stop(t.Context(), "kubelet"); err != nil {
			t.Fatal(err)
		}
		w.FailNext("start kubelet")
		startRun(t, w)
		time.Sleep(restoredWithin)
		expectJoined(t, w, r)
	})
}

func TestFailedServiceWatchIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := withoutCluster(t, sim.WindowsOptions{RestartDelay: never})
		w.FailNext("watch")
		startRun(t, w)
		time.Sleep(time.Minute)
		w.Crash("kubelet")
		time.Sleep(restoredWithin)
		expectJoined(t, w, r)
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
			func(t *testing.T, w *sim.Windows, r wicdapi.JoinRequest) { mustJoin(t, w, r) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, r := withoutCluster(t, sim.WindowsOptions{Programs: map[string]sim.Program{api.WICDService: sim.WICD}})
				time.Sleep(time.Minute)
				if err := w.Host().Services.Stop(t.Context(), api.WICDService); err != nil {
					t.Fatal(err)
				}
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
				time.Sleep(restoredWithin)
				expectJoined(t, w, r)
			})
		})
	}
}
