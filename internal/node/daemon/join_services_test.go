package daemon_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// TestOnlyAffectedServicesRestart: TestDiffPredictsRestarts has the other settings.
func TestOnlyAffectedServicesRestart(t *testing.T) {
	for name, test := range map[string]struct {
		change func(r *wicdapi.JoinRequest)
		want   []string
	}{
		"containerd's file":   {func(r *wicdapi.JoinRequest) { r.Desired.Files[1].Content = "" }, []string{"containerd", "kubelet"}},
		"token while waiting": {func(r *wicdapi.JoinRequest) { r.Bootstrap.Token = "newer" }, []string{"kubelet", api.WICDService}},
		"address":             {func(r *wicdapi.JoinRequest) { r.NodeIP = "192.0.2.11" }, []string{"kubelet"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
			mustSend(t, w, c)
			r := newRequest(c)
			mustJoin(t, w, r)
			before := map[string]uint32{}
			for _, s := range r.Desired.Services {
				before[s.Name] = w.Service(s.Name).PID
			}
			test.change(&r)
			mustJoin(t, w, r)
			expectJoined(t, w, r)
			var started []string
			for _, s := range r.Desired.Services {
				if w.Service(s.Name).PID != before[s.Name] {
					started = append(started, s.Name)
				}
			}
			if diff := cmp.Diff(test.want, started); diff != "" {
				t.Errorf("started again (-want +got):\n%s", diff)
			}
		})
	}
}

// TestARestartThatWasCutIsMadeGood fails the join after a file was written and before its reader was restarted, without a power failure that would
// start it anyway.
func TestARestartThatWasCutIsMadeGood(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
	mustSend(t, w, c)
	r := newRequest(c)
	mustJoin(t, w, r)
	pid := w.Service("kubelet").PID
	r.Desired.Files[0].Content = "{ }"
	w.FailNext("stop kubelet")
	if _, err := newWire(w).join(r); err == nil {
		t.Fatal("the join succeeded")
	}
	mustJoin(t, w, r)
	expectJoined(t, w, r)
	if w.Service("kubelet").PID == pid {
		t.Error("the kubelet runs with the old configuration")
	}
}

// TestKeysOfRequestsWithAFormerTokenGo: requests made with a former token are never approved, and a service that found the key of one would wait
// for it.
func TestKeysOfRequestsWithAFormerTokenGo(t *testing.T) {
	for name, test := range map[string]struct {
		token string
		fails []string // operations of which each fails in a separate join before the last one
		kept  bool
	}{
		"the same token":                 {token: token, kept: true},
		"another token":                  {token: "newer"},
		"another token, the restart cut": {token: "newer", fails: []string{"stop kubelet", "remove " + kubeletPendingFile, "remove " + PendingFile, "start kubelet"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
			mustSend(t, w, c)
			r := newRequest(c)
			mustJoin(t, w, r)
			keys := []string{PendingFile, kubeletPendingFile}
			for _, key := range keys {
				mustWrite(t, w.Disk(), key, "a key")
			}
			r.Bootstrap.Token = test.token
			for _, operation := range test.fails {
				w.FailNext(operation)
				if _, err := newWire(w).join(r); err == nil {
					t.Errorf("the join succeeded although %q failed", operation)
				}
			}
			mustJoin(t, w, r)
			expectJoined(t, w, r)
			for _, key := range keys {
				if w.Disk().Exists(key) != test.kept {
					t.Errorf("%s is there: %t, want %t", key, !test.kept, test.kept)
				}
			}
		})
	}
}

func TestForeignServiceIsLeftAlone(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
	mustSend(t, w, c)
	foreign := desired.Service{Name: "containerd", Description: "Docker's", Command: `C:\Program Files\Docker\containerd.exe`}
	if _, err := w.Host().Services.Put(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	before := w.Changes()
	_, err := newWire(w).join(newRequest(c))
	e := expectCode(t, err, wicdapi.CodeServiceConflict)
	for _, part := range []string{`"containerd"`, "Docker's", "sc.exe delete containerd"} {
		if !strings.Contains(e.Message, part) {
			t.Errorf("%q does not say %s", e.Message, part)
		}
	}
	if changes := w.Changes() - before; changes != 0 {
		t.Errorf("%d changes were made", changes)
	}
}

func TestServicesThatAreWantedNoMoreAreRemoved(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
	mustSend(t, w, c)
	r := newRequest(c)
	r.Desired.Services = append(r.Desired.Services, ours("csi-proxy", desired.VersionFolder(c.digest())+`\kubelet.exe`, "kubelet"))
	mustJoin(t, w, r)
	foreign := desired.Service{Name: "backup", Description: "Backs up", Command: `C:\k\kubelet.exe`}
	if _, err := w.Host().Services.Put(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	before := w.Service("kubelet").PID
	r.Desired.Services = r.Desired.Services[:3]
	result := mustJoin(t, w, r)
	expectJoined(t, w, r)
	if w.Service("csi-proxy").Name != "" || !slices.Contains(result.Changed, "service csi-proxy removed") {
		t.Errorf("csi-proxy is %+v; changed: %q", w.Service("csi-proxy"), result.Changed)
	}
	if w.Service("backup").Name == "" || w.Service("kubelet").PID != before {
		t.Error("a service of others was removed, or one of ours restarted")
	}
}

func TestStartFailureQuotesServiceLog(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
	mustSend(t, w, c)
	mustWrite(t, w.Disk(), `C:\var\log\kubelet\kubelet.log`, "many lines\nE1120 the last line says why\n")
	w.FailNext("start kubelet")
	r := newRequest(c)
	_, err := newWire(w).join(r)
	e := expectCode(t, err, wicdapi.CodeServiceFailed)
	for _, part := range []string{"kubelet", "simulated failure", "the last line says why"} {
		if !strings.Contains(e.Message, part) {
			t.Errorf("%q does not say %q", e.Message, part)
		}
	}
	mustJoin(t, w, r)
	expectJoined(t, w, r)
}

// TestAServiceThatWindowsIsTooBusyToStartIsStartedLater: a computer that installs updates, for example, may fail to start a program within the
// service manager's limit of 30 seconds.
func TestAServiceThatWindowsIsTooBusyToStartIsStartedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
		mustSend(t, w, c)
		w.Busy("start kubelet", 20*time.Second)
		r := newRequest(c)
		mustJoin(t, w, r)
		expectJoined(t, w, r)
	})
}

func TestAServiceThatWindowsIsAlwaysTooBusyToStartIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
		mustSend(t, w, c)
		w.Busy("start kubelet", time.Hour)
		_, err := newWire(w).join(newRequest(c))
		if e := expectCode(t, err, wicdapi.CodeServiceFailed); !strings.Contains(e.Message, "service kubelet does not start: ") || !strings.Contains(e.Message, hostapi.ErrBusy.Error()) {
			t.Errorf("the message is %q", e.Message)
		}
	})
}
