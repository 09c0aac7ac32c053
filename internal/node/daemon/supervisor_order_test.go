package daemon_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

func TestServicesStartWhenWhatTheyDependOnWorks(t *testing.T) {
	const startup = 20 * time.Second
	// run checks that the kubelet was started only after containerd worked.
	run := func(t *testing.T, w *sim.Windows) {
		if since := w.Since("kubelet"); since.Before(w.Since("containerd").Add(startup)) {
			t.Errorf("the kubelet was started at %v, containerd at %v", since, w.Since("containerd"))
		}
	}
	t.Run("join", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, r := withoutCluster(t, sim.WindowsOptions{Startup: map[string]time.Duration{"containerd": startup}})
			expectJoined(t, w, r)
			run(t, w)
		})
	})
	t.Run("later", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, r := withoutCluster(t, sim.WindowsOptions{RestartDelay: never, Startup: map[string]time.Duration{"containerd": startup}})
			startRun(t, w)
			time.Sleep(time.Hour)
			for _, name := range []string{"containerd", "kubelet"} { // the kubelet is stopped first, and WICD may start it before containerd stops
				if err := w.Host().Services.Stop(t.Context(), name); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(startup / 2)
			if w.Service("kubelet").State != hostapi.Stopped {
				t.Error("the kubelet was started while containerd did not answer")
			}
			time.Sleep(startup/2 + restoredWithin)
			expectJoined(t, w, r)
			run(t, w)
		})
	})
}

func TestJoinNamesFailingService(t *testing.T) {
	const log = `C:\var\log\containerd\containerd.log`
	for name, test := range map[string]struct {
		options sim.WindowsOptions
		within  time.Duration
		want    []string
	}{
		"never answers": {
			sim.WindowsOptions{Startup: map[string]time.Duration{"containerd": never}}, 2 * time.Minute,
			[]string{"containerd", "kubelet is waiting for it", "npipe://./pipe/containerd-containerd", "the last line"},
		},
		"dies meanwhile": {
			sim.WindowsOptions{
				RestartDelay: never, Startup: map[string]time.Duration{"containerd": never},
				Programs: map[string]sim.Program{"containerd": func(context.Context, sim.Process) uint32 { return 7 }},
			}, 10 * time.Second,
			[]string{"containerd", "exited with code 7", "the last line"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test.options.Kind = soon
				w, c := newWindows(t, test.options), newCargo("1")
				mustSend(t, w, c)
				mustWrite(t, w.Disk(), log, "the first line\nthe last line\n")
				began := time.Now()
				_, err := newWire(w).join(newRequest(c))
				e := expectCode(t, err, wicdapi.CodeServiceFailed)
				for _, want := range test.want {
					if !strings.Contains(e.Message, want) {
						t.Errorf("%q does not say %q", e.Message, want)
					}
				}
				if took := time.Since(began); took > test.within {
					t.Errorf("the join took %v", took)
				}
				if w.Service("kubelet").State != hostapi.Stopped {
					t.Error("the kubelet was started")
				}
			})
		})
	}
}

func TestAServiceStartsWhenTheFilesItNeedsAreThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWindows(t, sim.WindowsOptions{Kind: soon, RestartDelay: never}), newCargo("1")
		mustSend(t, w, c)
		r := newRequest(c)
		exporter := ours("windows_exporter", r.Desired.Services[0].Command)
		exporter.Needs = []string{`C:\k\first.pem`, `C:\k\second.pem`}
		above := ours("cloud-node-manager", r.Desired.Services[0].Command, "windows_exporter")
		r.Desired.Services = append(r.Desired.Services, exporter, above)
		mustJoin(t, w, r) // the join does not wait for the files
		startRun(t, w)
		for _, file := range exporter.Needs {
			time.Sleep(time.Hour)
			for _, name := range []string{"windows_exporter", "cloud-node-manager"} {
				if w.Service(name).State != hostapi.Stopped {
					t.Errorf("%s was started before %s was there", name, file)
				}
			}
			mustWrite(t, w.Disk(), file, "a certificate")
		}
		time.Sleep(restoredWithin)
		expectJoined(t, w, r)
	})
}

func TestServicesStopAndStartInDependencyOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		order := make(chan string, 16)
		report := func(name string) sim.Program {
			return func(ctx context.Context, _ sim.Process) uint32 {
				order <- "start " + name
				<-ctx.Done()
				order <- "stop " + name
				return 0
			}
		}
		w, c := newWindows(t, sim.WindowsOptions{
			Kind:         soon,
			RestartDelay: never,
			Startup:      map[string]time.Duration{"containerd": time.Second, "kubelet": time.Second},
			Programs: map[string]sim.Program{
				"containerd": report("containerd"), "kubelet": report("kubelet"), "kube-proxy": report("kube-proxy"),
			},
		}), newCargo("1")
		mustSend(t, w, c)
		r := newRequest(c)
		// Declared in the wrong order.
		r.Desired.Services = append([]desired.Service{ours("kube-proxy", r.Desired.Services[0].Command, "kubelet")}, r.Desired.Services...)
		mustJoin(t, w, r)
		startRun(t, w)
		time.Sleep(time.Minute)
		w.Edit("containerd", func(s *desired.Service) { s.Command += " x" })
		time.Sleep(restoredWithin)
		for _, want := range []string{
			"start containerd", "start kubelet", "start kube-proxy", "stop kube-proxy", "stop kubelet", "stop containerd",
			"start containerd", "start kubelet", "start kube-proxy",
		} {
			if got := <-order; got != want {
				t.Fatalf("%q came, want %q", got, want)
			}
		}
	})
}

// A service that cannot be stopped, and therefore not restored, keeps running as it is; others do not wait for it.
func TestUnstoppableServiceDoesNotBlockOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := withoutCluster(t, sim.WindowsOptions{RestartDelay: never})
		startRun(t, w)
		time.Sleep(time.Hour)
		pid := w.Service("kubelet").PID
		w.Edit("kubelet", func(s *desired.Service) { s.Command += " --v=9" })
		w.Crash("containerd")
		for range 50 {
			w.FailNext("stop kubelet")
			time.Sleep(10 * time.Millisecond)
		}
		if got := w.Service("containerd"); got.State != hostapi.Running {
			t.Errorf("containerd is %s", got.State)
		}
		time.Sleep(time.Minute) // until the longer pauses have passed
		expectJoined(t, w, r)
		if w.Service("kubelet").PID == pid {
			t.Error("the kubelet runs as it was edited")
		}
	})
}
