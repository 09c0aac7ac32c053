package supervisor_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

func TestServicesStartWhenDependenciesAreReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const startup = 20 * time.Second
		w, r := daemontest.NewNode(t, sim.WindowsOptions{NoQuirks: daemontest.TimingMeasured, RestartDelay: daemontest.Never, Startup: map[string]time.Duration{"containerd": startup}})
		expect := func(when string) {
			t.Helper()
			daemontest.ExpectJoined(t, w, r)
			if since := w.Since("kubelet"); since.Before(w.Since("containerd").Add(startup)) {
				t.Errorf("%s, the kubelet was started at %v, containerd at %v", when, since, w.Since("containerd"))
			}
		}
		expect("by the join")
		daemontest.StartRun(t, w.Host())
		time.Sleep(time.Hour)
		daemontest.MustStop(t, w, "containerd", "kubelet") // the kubelet is stopped first, and WICD may start it before containerd stops
		time.Sleep(startup / 2)
		if w.Service("kubelet").State != hostapi.Stopped {
			t.Error("the kubelet was started while containerd did not respond")
		}
		time.Sleep(startup/2 + daemontest.RestoredWithin)
		expect("later")
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
			sim.WindowsOptions{Startup: map[string]time.Duration{"containerd": daemontest.Never}}, 2 * time.Minute,
			[]string{"containerd", "kubelet is waiting for it", "npipe://./pipe/containerd-containerd", "the last line"},
		},
		"dies meanwhile": {
			sim.WindowsOptions{
				RestartDelay: daemontest.Never, Startup: map[string]time.Duration{"containerd": daemontest.Never},
				Programs: map[string]sim.Program{"containerd": func(context.Context, sim.Process) uint32 { return 7 }},
			}, 10 * time.Second,
			[]string{"containerd", "exited with code 7", "the last line"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test.options.NoQuirks = daemontest.TimingMeasured
				w, r := daemontest.NewHost(t, test.options)
				daemontest.MustWrite(t, w.Disk(), log, "the first line\nthe last line\n")
				began := time.Now()
				_, err := daemontest.NewWire(w).Join(r)
				e := daemontest.ExpectCode(t, err, wicdapi.CodeServiceFailed)
				daemontest.ExpectContains(t, e.Message, test.want...)
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

func TestServiceStartsWhenNeededFilesExist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := daemontest.NewHost(t, sim.WindowsOptions{NoQuirks: daemontest.TimingMeasured, RestartDelay: daemontest.Never})
		exporter := daemontest.Service("windows_exporter", r.Desired.Services[0].Command)
		exporter.Needs = []string{`C:\k\first.pem`, `C:\k\second.pem`}
		above := daemontest.Service("cloud-node-manager", r.Desired.Services[0].Command, "windows_exporter")
		r.Desired.Services = append(r.Desired.Services, exporter, above)
		daemontest.MustJoin(t, w, r) // the join does not wait for the files
		daemontest.StartRun(t, w.Host())
		for _, file := range exporter.Needs {
			time.Sleep(time.Hour)
			for _, name := range []string{"windows_exporter", "cloud-node-manager"} {
				if w.Service(name).State != hostapi.Stopped {
					t.Errorf("%s was started before %s existed", name, file)
				}
			}
			daemontest.MustWrite(t, w.Disk(), file, "a certificate")
		}
		time.Sleep(daemontest.RestoredWithin)
		daemontest.ExpectJoined(t, w, r)
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
		w, r := daemontest.NewHost(t, sim.WindowsOptions{
			NoQuirks: daemontest.TimingMeasured, RestartDelay: daemontest.Never,
			Startup: map[string]time.Duration{"containerd": time.Second, "kubelet": time.Second},
			Programs: map[string]sim.Program{
				"containerd": report("containerd"), "kubelet": report("kubelet"), "kube-proxy": report("kube-proxy"),
			},
		})
		// Declared in the wrong order.
		r.Desired.Services = append([]desired.Service{daemontest.Service("kube-proxy", r.Desired.Services[0].Command, "kubelet")}, r.Desired.Services...)
		daemontest.MustJoin(t, w, r)
		daemontest.StartRun(t, w.Host())
		time.Sleep(time.Minute)
		w.Edit("containerd", func(s *desired.Service) { s.Command += " x" })
		time.Sleep(daemontest.RestoredWithin)
		for _, want := range []string{
			"start containerd", "start kubelet", "start kube-proxy", "stop kube-proxy", "stop kubelet", "stop containerd",
			"start containerd", "start kubelet", "start kube-proxy",
		} {
			if got := <-order; got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
		}
	})
}

// A service that cannot be stopped, and therefore not restored, keeps running as it is; others do not wait for it.
func TestUnstoppableServiceDoesNotBlockOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := newSupervised(t, nil)
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
		daemontest.ExpectJoined(t, w, r)
		if w.Service("kubelet").PID == pid {
			t.Error("the kubelet runs with the edited command")
		}
	})
}
