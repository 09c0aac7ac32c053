package daemontest

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

const (
	// WICDFile and PendingFile are WICD's certificate and the key of its pending request.
	WICDFile    = desired.WICDCertificates + `\wicd-client-current.pem`
	PendingFile = desired.WICDCertificates + `\wicd-client-pending.pem`
	// JournalFile is the journal, and MetricsFile has WICD's metrics.
	JournalFile = desired.State + `\journal.jsonl`
	MetricsFile = desired.Metrics + `\wicd.prom`
	// CNIConfig is the configuration of the pod network.
	CNIConfig = `C:\k\cni\config\cni.conf`
)

func MustWrite(t *testing.T, d hostapi.Disk, name, content string) {
	t.Helper()
	if _, err := d.WriteFile(name, content); err != nil {
		t.Fatalf("writing %s: %v", name, err)
	}
}

// MustDeclare creates a service that does not run.
func MustDeclare(t *testing.T, w *sim.Windows, s desired.Service) {
	t.Helper()
	if _, err := w.Host().Services.Put(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

// MustStop stops services, as an administrator does.
func MustStop(t *testing.T, w *sim.Windows, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := w.Host().Services.Stop(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
}

// Journal returns a host's journal, one line per entry.
func Journal(t *testing.T, w *sim.Windows) string {
	t.Helper()
	content, err := w.Disk().Read(JournalFile)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func ExpectContent(t *testing.T, d hostapi.Disk, name, want string) {
	t.Helper()
	if got, err := d.Read(name); err != nil || string(got) != want {
		t.Errorf("%s holds %q, %v; want %q", name, got, err, want)
	}
}

// ExpectContains checks that a text contains all parts.
func ExpectContains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q does not contain %q", text, part)
		}
	}
}

func ExpectCode(t *testing.T, err error, want wicdapi.Code) *wicdapi.Error {
	t.Helper()
	failed := wicdapi.Failed(err)
	if failed == nil || failed.Code != want {
		t.Fatalf("the error is %v, want code %s", err, want)
	}
	return failed
}

// ExpectNoChange joins a host again, which must change nothing.
func ExpectNoChange(t *testing.T, w *sim.Windows, r wicdapi.JoinRequest) {
	t.Helper()
	if again := MustJoin(t, w, r); again.Changed != nil || again.Rebooting != "" {
		t.Errorf("the repeated join: %+v", again)
	}
}

// ExpectJoined checks that the computer is as requested.
func ExpectJoined(t *testing.T, w *sim.Windows, r wicdapi.JoinRequest) {
	t.Helper()
	disk := w.Disk()
	for _, f := range r.Desired.Payload {
		for _, name := range []string{desired.VersionFolder(r.Desired.Digest) + `\` + f.Path, `C:\k\` + f.Path} {
			one, err := disk.Stat(name)
			two, storeErr := disk.Stat(desired.Store + `\` + f.SHA256)
			if err := errors.Join(err, storeErr); err != nil {
				t.Errorf("%s: %v", name, err)
			} else if !os.SameFile(one, two) {
				t.Errorf("%s is not content %.12s", name, f.SHA256)
			}
		}
	}
	for _, f := range r.Desired.Files {
		ExpectContent(t, disk, f.Path, f.Content)
	}
	ExpectServices(t, w, r)
	want := &wicdapi.Joined{Cluster: r.Cluster, Node: r.Node, NodeIP: r.NodeIP, Digest: r.Desired.Digest, Version: r.Desired.Version, HasCertificate: disk.Exists(WICDFile)}
	if diff := cmp.Diff(want, Facts(t, w).Joined); diff != "" {
		t.Errorf("joined (-want +got):\n%s", diff)
	}
}

// ExpectServices checks that the services are as declared and running.
func ExpectServices(t *testing.T, w *sim.Windows, r wicdapi.JoinRequest) {
	t.Helper()
	for _, s := range r.Desired.Services {
		s.Command = strings.NewReplacer("${NODE_NAME}", r.Node, "${NODE_IP}", r.NodeIP).Replace(s.Command)
		s.Ready, s.Needs, s.Reads, s.Log = "", nil, nil, desired.Log{} // Windows does not store WICD's own fields
		got := w.Service(s.Name)
		if diff := cmp.Diff(s, got.Service); diff != "" {
			t.Errorf("service %s (-want +got):\n%s", s.Name, diff)
		}
		if got.State != hostapi.Running {
			t.Errorf("service %s is %s", s.Name, got.State)
		}
	}
}

// PIDs returns the processes of the services that a request declares.
func PIDs(w *sim.Windows, r wicdapi.JoinRequest) map[string]uint32 {
	pids := map[string]uint32{}
	for _, s := range r.Desired.Services {
		pids[s.Name] = w.Service(s.Name).PID
	}
	return pids
}
