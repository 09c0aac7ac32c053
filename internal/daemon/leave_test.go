package daemon_test

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/daemon/update"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/host"
	"github.com/windows-machine-config/wmco/internal/sim"
)

const (
	journalFile = desired.State + `\journal.jsonl`
	shim        = `C:\k\containerd\containerd-shim-runhcs-v1.exe`
	layer       = desired.ContainerdRoot + `\io.containerd.snapshotter.v1.windows\snapshots\7`
	podNetwork  = "0f1a2b3c-0000-4000-8000-000000000001"
)

// state is what a host consists of, as far as a join could change it.
type state struct {
	Services    map[string]desired.Service
	Environment map[string]string
	Trusted     []string
	Remnants    []string
	Rules       []sim.Rule
	Files       map[string]string
}

// stateOf leaves out journal, logs and what remains.
func stateOf(t *testing.T, w *sim.Windows, remains ...string) state {
	t.Helper()
	s := state{Services: map[string]desired.Service{}, Environment: w.Environment(), Remnants: w.Remnants(), Rules: w.Rules(), Files: map[string]string{}}
	services, err := w.Host().Services.List(t.Context(), []string{"backup"})
	if err != nil {
		t.Fatal(err)
	}
	for _, is := range services {
		s.Services[is.Name] = is.Service
	}
	if s.Trusted, err = w.Host().Certificates.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	disk := w.Disk()
	walk := func(folder string) {
		err = errors.Join(err, disk.Walk(folder, func(name string, info fs.FileInfo) error {
			isLeft := slices.ContainsFunc(remains, func(line string) bool { return strings.HasPrefix(line, name+":") })
			if isLeft || name == journalFile || strings.HasPrefix(name, desired.Logs+`\`) {
				return nil
			}
			content := []byte("a folder")
			if info.Mode().IsRegular() {
				content, err = disk.Read(name)
			}
			s.Files[name] = string(content)
			return err
		}))
	}
	names, _ := disk.List(`C:`)
	for _, name := range names {
		walk(`C:\` + name)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newShared is a host that somebody else uses, too.
func newShared(t *testing.T) *sim.Windows {
	t.Helper()
	w := newWindows(t, sim.WindowsOptions{})
	for _, name := range []string{
		`C:\data\important.txt`, `C:\ProgramData\other\file`, `C:\ProgramData\containerd\other\file`, `C:\var\lib\other\file`, `C:\usr\bin\tool.exe`,
		`C:\k\state\journal.jsonl`, `C:\var\log\other.log`, `C:\ProgramData\ssh\administrators_authorized_keys`,
	} {
		mustWrite(t, w.Disk(), name, "")
	}
	foreign := desired.Service{Name: "backup", Description: "Backs up", Command: `C:\usr\bin\tool.exe`}
	if _, err := w.Host().Services.Put(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	w.SetVariable("OTHER", "somebody's")
	w.AddRule(sim.Rule{FirewallRule: rules()[0], Group: "somebody's"})
	return w
}

// furnish makes what containerd, the kubelet and WICD's service make on a node that works.
func furnish(t *testing.T, w *sim.Windows) {
	t.Helper()
	for name, content := range map[string]string{
		shim: "a shim",
		desired.ContainerdRoot + `\io.containerd.content.v1.content\blobs\x`:      "x",
		desired.ContainerdState + `\x`:                                            "x",
		desired.KubeletData + `\pods\1\volumes\x`:                                 "x",
		desired.CNIData + `\networks\n\10.132.0.2`:                                "x",
		desired.CNIData + `\results\n-pause-eth0`:                                 `{"kind":"cniCacheV1","netns":"` + podNetwork + `"}`,
		desired.CNIData + `\results\damaged`:                                      `{"kind":`,
		`C:\k\cni\config\cni.conf`:                                                "{}",
		desired.KubeletKubeconfig:                                                 "x",
		WICDFile:                                                                  "x",
		`C:\usr\libexec\kubernetes\kubelet-plugins\volume\exec\x\` + "plugin.exe": "x",
		`C:\var\log\kubelet\kubelet.log`:                                          "x",
	} {
		mustWrite(t, w.Disk(), name, content)
	}
	if err := w.Disk().RemoveAll(`C:\usr\libexec\kubernetes\kubelet-plugins\volume\exec\x`); err != nil {
		t.Fatal(err)
	}
	// A pod's volume is a link to where its data are.
	if err := os.Symlink(w.Disk().Local(`C:\data`), w.Disk().Local(desired.KubeletData+`\pods\1\volumes\link`)); err != nil {
		t.Fatal(err)
	}
	if err := w.AddLayer(layer); err != nil {
		t.Fatal(err)
	}
	w.AddContainer("pause", shim)
	w.AddNetwork(podNetwork)
}

// leavingRequest declares something of every kind.
func leavingRequest(t *testing.T, c *cargo) agent.JoinRequest {
	t.Helper()
	r := newRequest(c)
	r.Desired.Environment = map[string]string{"NO_PROXY": ".svc"}
	r.Desired.WatchedEnvironment = []string{"HTTP_PROXY", "NO_PROXY"}
	r.Desired.Certificates = otherAuthority(t)
	r.Desired.Firewall = rules()
	r.Desired.SecretsVersion = "1"
	r.Secrets = desired.Secrets{Version: "1", Files: []desired.File{{Path: credentialFile, Content: "secret"}, {Path: webConfig, Content: "x"}}}
	return r
}

func mustJoinAndWork(t *testing.T, w *sim.Windows, r agent.JoinRequest, c *cargo) {
	t.Helper()
	mustSend(t, w, c)
	mustJoin(t, w, r)
	furnish(t, w)
}

func TestAHostThatLeftIsWhatItWas(t *testing.T) {
	w, c := newShared(t), newCargo("1")
	before := stateOf(t, w)
	r := leavingRequest(t, c)
	mustJoinAndWork(t, w, r, c)
	result := mustLeave(t, w, r.Cluster)
	if diff := cmp.Diff(before, stateOf(t, w)); diff != "" {
		t.Errorf("before the join and after the leave (-want +got):\n%s", diff)
	}
	if len(result.Remains) != 0 {
		t.Errorf("remains: %q", result.Remains)
	}
	for _, part := range []string{
		"service kubelet removed", "container pause ended", "process of " + shim + " ended", "network " + podNetwork + " of a pod removed",
		"variable NO_PROXY of the machine removed", desired.ContainerdRoot + " removed", `C:\k\store removed`, "left cluster " + r.Cluster,
		`rule "kubelet" of the firewall removed`,
	} {
		if !slices.ContainsFunc(result.Removed, func(line string) bool { return strings.HasPrefix(line, part) }) {
			t.Errorf("%q is not told; told was %q", part, result.Removed)
		}
	}
	expectContent(t, w.Disk(), `C:\var\log\kubelet\kubelet.log`, "x")
	var status agent.Status
	if err := agent.Call(t.Context(), newWire(w), agent.CommandStatus, nil, &status, nil); err != nil || status.Joined != nil {
		t.Fatalf("status %+v, %v", status, err)
	}
	if last := status.Journal[len(status.Journal)-1].Change; !strings.HasPrefix(last, "left cluster "+r.Cluster) {
		t.Errorf("the journal ends with %q", last)
	}
	changes := w.Changes()
	if again := mustLeave(t, w, r.Cluster); again.Removed != nil || again.Remains != nil || w.Changes() != changes {
		t.Errorf("the second leave made %d changes: %+v", w.Changes()-changes, again)
	}
}

// TestALeaveThatIsCutConverges cuts the power, as a restart of Windows does, at each change that a leave makes.
func TestALeaveThatIsCutConverges(t *testing.T) {
	c := newCargo("1")
	for name, prepare := range map[string]func(t *testing.T, w *sim.Windows) string{
		"joined": func(t *testing.T, w *sim.Windows) string {
			r := leavingRequest(t, c)
			mustJoinAndWork(t, w, r, c)
			return r.Cluster
		},
		"without a record": func(t *testing.T, w *sim.Windows) string {
			mustJoinAndWork(t, w, newRequest(c), c)
			for _, name := range []string{`\node.json`, `\node.copy.json`} {
				if err := w.Disk().Remove(desired.State + name); err != nil {
					t.Fatal(err)
				}
			}
			return newRequest(c).Cluster
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for at := 0; cutLeave(t, at, prepare); at++ {
					if t.Failed() {
						t.Fatalf("cut at %d", at)
					}
				}
			})
		})
	}
}

// cutLeave cuts a leave after some changes and repeats it. isCut is false when it ended before.
func cutLeave(t *testing.T, at int, prepare func(t *testing.T, w *sim.Windows) (cluster string)) (isCut bool) {
	t.Helper()
	w := newShared(t)
	before := stateOf(t, w)
	cluster := prepare(t, w)
	w.CutPowerAfter(at)
	_, err := newWire(w).leave(cluster)
	w.PowerCut()
	w.PowerOn()
	mustLeave(t, w, cluster)
	if diff := cmp.Diff(before, stateOf(t, w)); diff != "" {
		t.Errorf("before the join and after the leave (-want +got):\n%s", diff)
	}
	if again := mustLeave(t, w, cluster); again.Removed != nil {
		t.Errorf("the third leave removed %q", again.Removed)
	}
	w.PowerOff()
	return err != nil
}

func TestAHostLeavesAndComesBackAlsoToAnotherCluster(t *testing.T) {
	w, c := newShared(t), newCargo("1")
	before := stateOf(t, w)
	for _, cluster := range []string{"first", "second", "first"} {
		r := leavingRequest(t, c)
		r.Cluster, r.Bootstrap.Server = cluster, "https://"+cluster+".example"
		mustJoinAndWork(t, w, r, c)
		mustJoin(t, w, r)
		expectContent(t, w.Disk(), r.Desired.Files[0].Path, r.Desired.Files[0].Content)
		expectServices(t, w, r)
		mustLeave(t, w, cluster)
		if diff := cmp.Diff(before, stateOf(t, w)); diff != "" {
			t.Errorf("after leaving %s (-want +got):\n%s", cluster, diff)
		}
	}
}

// A host that was cut while it left can be joined instead: to the cluster it left, or to another.
func TestAHostThatBeganToLeaveCanBeJoined(t *testing.T) {
	for _, cluster := range []string{"first", "second"} {
		for _, fails := range []string{"delete kubelet", "end pause", `remove C:\k\state\node.copy.json`} {
			t.Run(cluster+", "+fails, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w, c := newShared(t), newCargo("1")
					r := newRequest(c)
					r.Cluster = "first"
					mustJoinAndWork(t, w, r, c)
					w.FailNext(fails)
					_, _ = newWire(w).leave("first")
					r.Cluster = cluster
					mustSend(t, w, c)
					mustJoin(t, w, r)
					if err := w.Disk().Remove(WICDFile); err != nil {
						t.Fatal(err)
					}
					expectJoined(t, w, r)
				})
			})
		}
	}
}

func TestAHostOfAnotherClusterIsLeftAlone(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, w *sim.Windows){
		"joined":            func(*testing.T, *sim.Windows) {},
		"record unreadable": func(t *testing.T, w *sim.Windows) { mustWrite(t, w.Disk(), desired.State+`\node.json`, "{") },
	} {
		t.Run(name, func(t *testing.T) {
			w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
			mustSend(t, w, c)
			r := newRequest(c)
			mustJoin(t, w, r)
			spoil(t, w)
			changes := w.Changes()
			_, err := newWire(w).leave("another")
			if e := expectCode(t, err, agent.CodeOtherCluster); !strings.Contains(e.Message, r.Cluster) {
				t.Errorf("%q does not name the cluster", e.Message)
			}
			if w.Changes() != changes {
				t.Errorf("%d changes were made", w.Changes()-changes)
			}
			_, err = newWire(w).leave("")
			expectCode(t, err, agent.CodeRequestInvalid)
		})
	}
}

// Others put their Kubernetes into C:\k, too.
func TestAHostWithNothingOfOursIsLeftAlone(t *testing.T) {
	w := newShared(t)
	mustWrite(t, w.Disk(), `C:\k\kubelet.exe`, "somebody's")
	mustWrite(t, w.Disk(), desired.KubeletData+`\config.yaml`, "somebody's")
	before, changes := stateOf(t, w), w.Changes()
	result := mustLeave(t, w, "cluster")
	if result.Removed != nil || result.Remains != nil || w.Changes() != changes {
		t.Errorf("%d changes: %+v", w.Changes()-changes, result)
	}
	if diff := cmp.Diff(before, stateOf(t, w)); diff != "" {
		t.Error(diff)
	}
}

// A host that only received content has nothing but that; a kubelet's data are somebody else's there.
func TestAHostThatNeverJoinedLosesWhatItReceived(t *testing.T) {
	w := newShared(t)
	mustWrite(t, w.Disk(), desired.KubeletData+`\config.yaml`, "somebody's")
	before := stateOf(t, w)
	mustSend(t, w, newCargo("1"))
	mustLeave(t, w, "cluster")
	if diff := cmp.Diff(before, stateOf(t, w)); diff != "" {
		t.Error(diff)
	}
}

// TestWhatCannotBeRemovedIsNamedAndKeepsNothingElse has a file in use whose program is not ours to end.
func TestWhatCannotBeRemovedIsNamedAndKeepsNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newShared(t), newCargo("1")
		before := stateOf(t, w)
		r := leavingRequest(t, c)
		mustJoinAndWork(t, w, r, c)
		const inUse = desired.KubeletData + `\pods\1\scanner.exe`
		mustWrite(t, w.Disk(), inUse, "x")
		w.AddProgram(inUse)
		w.FailNext("end pause")
		result := mustLeave(t, w, r.Cluster)
		if len(result.Remains) != 2 || !strings.HasPrefix(result.Remains[0], "container pause: ") || !strings.HasPrefix(result.Remains[1], inUse+": ") {
			t.Errorf("remains: %q", result.Remains)
		}
		if w.Disk().Exists(desired.ContainerdRoot) || w.Service("kubelet").Name != "" || w.Disk().Exists(desired.Store) {
			t.Error("one file in use kept others from going")
		}
		w.PowerCut()
		w.PowerOn()
		if err := w.Disk().RemoveAll(desired.KubeletData); err != nil { // nobody knows any more whose it is
			t.Fatal(err)
		}
		mustLeave(t, w, r.Cluster)
		if diff := cmp.Diff(before, stateOf(t, w)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestFilesThatAreInUseForAMomentGo is about virus scanners, and processes that end later than they say.
func TestFilesThatAreInUseForAMomentGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newShared(t), newCargo("1")
		before := stateOf(t, w)
		r := leavingRequest(t, c)
		mustJoinAndWork(t, w, r, c)
		w.FailNext("remove " + desired.Store + `\` + c.files[0].SHA256)
		w.FailNext("remove " + credentialFile)
		if result := mustLeave(t, w, r.Cluster); len(result.Remains) != 0 {
			t.Errorf("remains: %q", result.Remains)
		}
		if diff := cmp.Diff(before, stateOf(t, w)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestContainersThatOutliveContainerdAreEndedBeforeTheirFilesGo: containers of DaemonSets are not drained. Their shims keep their
// program in use.
func TestContainersThatOutliveContainerdAreEndedBeforeTheirFilesGo(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
	r := newRequest(c)
	mustJoinAndWork(t, w, r, c)
	if err := w.Host().Disk.Remove(shim); !errors.Is(err, sim.ErrInUse) {
		t.Fatalf("removing the program of a shim that runs: %v, want that it is in use", err)
	}
	if err := w.Host().Services.Stop(t.Context(), "containerd"); err != nil {
		t.Fatal(err)
	}
	if len(w.Remnants()) != 4 {
		t.Fatalf("there are %q, want a container, its shim, its network and its layer", w.Remnants())
	}
	result := mustLeave(t, w, r.Cluster)
	if len(w.Remnants()) != 0 || w.Disk().Exists(shim) || len(result.Remains) != 0 {
		t.Errorf("there are %q; remains: %q", w.Remnants(), result.Remains)
	}
}

func TestServicesGoAfterThoseThatNeedThem(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
	mustSend(t, w, c)
	r := newRequest(c)
	r.Desired.Services = append(r.Desired.Services, ours("csi-proxy", desired.VersionFolder(c.digest())+`\kubelet.exe`, "kubelet"))
	mustJoin(t, w, r)
	if err := w.Host().Services.Stop(t.Context(), "csi-proxy"); err != nil { // one that is stopped already is no error
		t.Fatal(err)
	}
	result := mustLeave(t, w, r.Cluster)
	var removed []string
	for _, line := range result.Removed {
		if name, ok := strings.CutPrefix(line, "service "); ok {
			removed = append(removed, strings.TrimSuffix(name, " removed"))
		}
	}
	want := []string{api.WICDService, "csi-proxy", "kubelet", "containerd"}
	if diff := cmp.Diff(want, removed); diff != "" {
		t.Errorf("services removed (-want +got):\n%s", diff)
	}
}

func TestTheProgramThatRunsStaysAndOthersGo(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
	const home = `C:\Users\Administrator\`
	own := home + "wicd-0123456789abcdef.exe"
	for _, name := range []string{own, home + "wicd-0123456789abcdef-setup.exe", home + "wicd-aaaabbbbccccdddd.exe", home + "wicd-aaaabbbbccccdddd.exe.12.part", home + "wicd-mine.exe"} {
		mustWrite(t, w.Disk(), name, "x")
	}
	mustSend(t, w, c)
	mustJoin(t, w, newRequest(c))
	wire := newWire(w)
	wire.path = own
	result, err := wire.leave(newRequest(c).Cluster)
	if err != nil {
		t.Fatal(err)
	}
	left, _ := w.Disk().List(`C:\Users\Administrator`)
	if diff := cmp.Diff([]string{"wicd-0123456789abcdef.exe", "wicd-mine.exe"}, left); diff != "" {
		t.Errorf("in the home folder (-want +got):\n%s", diff)
	}
	if len(result.Remains) != 1 || !strings.HasPrefix(result.Remains[0], own+": ") {
		t.Errorf("remains: %q", result.Remains)
	}
}

func TestAFeatureThatTheJoinEnabledIsToldToStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWindows(t, sim.WindowsOptions{Features: map[string]agent.FeatureState{"Containers": agent.FeatureDisabled}}), newCargo("1")
		mustSend(t, w, c)
		mustJoin(t, w, newRequest(c))
		time.Sleep(10 * time.Second)
		mustJoin(t, w, newRequest(c))
		want := []string{"feature Containers of Windows: it stays enabled"}
		if result := mustLeave(t, w, newRequest(c).Cluster); !slices.Equal(result.Remains, want) {
			t.Errorf("remains: %q, want %q", result.Remains, want)
		}
	})
}

// stuckLeaving is a node whose leave was cut when the host was marked, with WICD's service at work.
func stuckLeaving(t *testing.T) *isolated {
	t.Helper()
	m := newIsolated(t, func(*sim.Cluster) {})
	m.windows.FailNext("stop " + api.WICDService)
	if _, err := newWire(m.windows).leave(m.request.Cluster); err == nil {
		t.Fatal("the leave succeeded")
	}
	return m
}

// TestNothingIsMendedOrPulledOnAHostThatLeaves: the original's daemon fought with its own cleanup, and settings were written to
// hosts that were being taken off.
func TestNothingIsMendedOrPulledOnAHostThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := stuckLeaving(t)
		w := m.windows
		m.publish(t, m.changed())
		for _, name := range []string{"kubelet", "containerd"} {
			if err := w.Host().Services.Stop(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		w.DeleteService("kubelet")
		mustWrite(t, w.Disk(), `C:\k\kubelet.conf`, "edited")
		w.SetVariable("HTTP_PROXY", "mine")
		before := stateOf(t, w)
		for range 3 {
			time.Sleep(20 * time.Minute)
			if diff := cmp.Diff(before, stateOf(t, w)); diff != "" {
				t.Fatalf("WICD changed a host that leaves (-want +got):\n%s", diff)
			}
			m.stop() // and when it begins anew
			m.start(t)
		}
		mustWrite(t, w.Disk(), desired.State+`\node.json`, "{") // the disk lost it with its power
		time.Sleep(20 * time.Minute)
		if status := mustStatus(t, w); status.Joined != nil || w.Service("kubelet").Name != "" {
			t.Errorf("the kubelet is %+v, joined: %+v", w.Service("kubelet"), status.Joined)
		}
		mustJoin(t, w, m.request) // which ends the leave
		time.Sleep(20 * time.Minute)
		expectServices(t, w, m.request)
	})
}

func mustStatus(t *testing.T, w *sim.Windows) (s agent.Status) {
	t.Helper()
	if err := agent.Call(t.Context(), newWire(w), agent.CommandStatus, nil, &s, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestAnUpdateDoesNotBringBackAHostThatLeaves runs the guard of an update after the host was marked.
func TestAnUpdateDoesNotBringBackAHostThatLeaves(t *testing.T) {
	for name, failure := range map[string]string{"forward": "", "back": "it does not work"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := stuckLeaving(t)
				w := m.windows
				mustWriteJSON(t, w.Disk(), desired.State+`\update.json`, map[string]any{
					"request": m.request, "former": m.request, "within": "10m0s", "steady": "1m0s", "failure": failure,
				})
				if err := w.Host().Services.Stop(t.Context(), "kubelet"); err != nil {
					t.Fatal(err)
				}
				if err := update.Update(context.Background(), w.Host(), slog.New(slog.DiscardHandler)); err != nil {
					t.Fatal(err)
				}
				if mustStatus(t, w).Joined != nil || w.Service("kubelet").State != host.Stopped {
					t.Errorf("the kubelet is %s, joined: %+v", w.Service("kubelet").State, mustStatus(t, w).Joined)
				}
				time.Sleep(time.Hour)
				if w.Service(api.WICDUpdateService).Name != "" {
					t.Error("WICD made the guard again")
				}
			})
		})
	}
}

// TestTheGuardOfAnUpdateIsNotMadeAgain lets WICD look after the guard at some moment between two looks at its record.
func TestTheGuardOfAnUpdateIsNotMadeAgain(t *testing.T) {
	for offset := range 10 {
		synctest.Test(t, func(t *testing.T) {
			m := newIsolated(t, func(*sim.Cluster) {})
			mustWriteJSON(t, m.windows.Disk(), desired.State+`\update.json`, map[string]any{"request": m.request, "former": m.request})
			time.Sleep(time.Duration(offset) * time.Second)
			m.cluster.Patch(nodePath, map[string]any{"metadata": map[string]any{"annotations": map[string]any{api.AnnotationDesiredVersion: "2"}}})
			time.Sleep(time.Second)
			if m.windows.Service(api.WICDUpdateService).Name == "" {
				t.Fatal("there is no guard")
			}
			m.windows.FailNext("delete kubelet")
			if _, err := newWire(m.windows).leave(m.request.Cluster); err == nil {
				t.Fatal("the leave succeeded")
			}
			time.Sleep(time.Minute)
			if m.windows.Service(api.WICDUpdateService).Name != "" {
				t.Errorf("with an offset of %d s, WICD made the guard again", offset)
			}
		})
	}
}
