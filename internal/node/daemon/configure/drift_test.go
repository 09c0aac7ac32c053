package configure_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

func TestMachineSettingsAreRestored(t *testing.T) {
	w, r := daemontest.NewHost(t, sim.WindowsOptions{})
	r.Desired.Environment = map[string]string{"NO_PROXY": ".svc"}
	r.Desired.WatchedEnvironment = []string{"HTTP_PROXY", "NO_PROXY"}
	r.Desired.Certificates = daemontest.OtherAuthority(t)
	daemontest.MustJoin(t, w, r)
	want := w.Environment()
	tamper := func() {
		w.SetVariable("NO_PROXY", "mine")
		w.SetVariable("HTTP_PROXY", "http://mine")
		hash := mustTrustOne(t, w)
		if _, err := w.Host().Certificates.Remove(t.Context(), hash); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		tamper()
		daemontest.StartRun(t, w.Host())
		// A part that finds another one running retries after 10 s.
		for _, wait := range []time.Duration{11 * time.Second, daemontest.AfterServiceCheck} {
			time.Sleep(wait)
			mustTrustOne(t, w)
			if diff := cmp.Diff(want, w.Environment()); diff != "" {
				t.Errorf("after %v the environment is (-want +got):\n%s", wait, diff)
			}
			tamper()
		}
	})
}

// The kubelet's program is replaced while it is stopped, then it starts again.
func TestReplacedProgramsAreRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := daemontest.NewNode(t, sim.WindowsOptions{NoQuirks: daemontest.TimingMeasured})
		program := desired.VersionFolder(r.Desired.Digest) + `\kubelet.exe`
		daemontest.StartRun(t, w.Host())
		time.Sleep(time.Second)
		before := daemontest.PIDs(w, r)
		daemontest.MustWrite(t, w.Disk(), program, "somebody else's")
		time.Sleep(daemontest.AfterServiceCheck)
		daemontest.ExpectJoined(t, w, r)
		for name, pid := range daemontest.PIDs(w, r) {
			if again := pid != before[name]; again != (name == "kubelet") {
				t.Errorf("%s was started again: %v", name, again)
			}
		}
		if !strings.Contains(daemontest.Journal(t, w), `kubelet.exe linked to content`) {
			t.Error("the journal does not report it")
		}
	})
}

func mustTrustOne(t *testing.T, w *sim.Windows) (hash string) {
	t.Helper()
	hashes, err := w.Host().Certificates.List(t.Context())
	if err != nil || len(hashes) != 1 {
		t.Fatalf("the machine trusts %q, %v, want one certificate", hashes, err)
	}
	return hashes[0]
}

func TestReplacedCertificatesAreRemoved(t *testing.T) {
	w, _ := daemontest.NewNode(t, sim.WindowsOptions{NoQuirks: daemontest.TimingMeasured})
	disk := w.Disk()
	long := time.Now().Add(-24 * time.Hour)
	dated := func(folder, kind string, day int, content string) string {
		name := fmt.Sprintf(`%s\%s-2026-11-%02d-10-00-00.pem`, folder, kind, day)
		daemontest.MustWrite(t, disk, name, content)
		if err := os.Chtimes(disk.Local(name), long, long); err != nil {
			t.Fatal(err)
		}
		return name
	}
	kubelet, wicd := desired.KubeletCertificates, desired.WICDCertificates
	var removed, kept []string
	for day := 1; day <= 5; day++ {
		for _, c := range []struct{ folder, kind string }{{kubelet, "kubelet-client"}, {kubelet, "kubelet-server"}, {wicd, "wicd-client"}} {
			name := dated(c.folder, c.kind, day, fmt.Sprint(c.kind, day))
			if day <= 3 {
				removed = append(removed, name)
			} else {
				kept = append(kept, name)
			}
		}
	}
	for _, kind := range []string{"kubelet-client", "kubelet-server"} {
		daemontest.MustWrite(t, disk, kubelet+`\`+kind+`-current.pem`, kind+"5")
	}
	daemontest.MustWrite(t, disk, wicd+`\wicd-client-current.pem`, "of today")
	// The clock was set back: the file in use has an old name, and so has a recent file.
	daemontest.MustWrite(t, disk, kubelet+`\kubelet-server-current.pem`, "kubelet-server2")
	young := kubelet + `\kubelet-client-2026-10-01-10-00-00.pem`
	daemontest.MustWrite(t, disk, young, "made a moment ago")
	others := []string{kubelet + `\kubelet-client-2026.pem`, kubelet + `\kubelet.crt`, kubelet + `\x-2026-11-01-10-00-00.key`}
	for _, name := range others {
		daemontest.MustWrite(t, disk, name, "of others")
	}
	inUse := kubelet + `\kubelet-server-2026-11-02-10-00-00.pem`
	removed = slices.DeleteFunc(removed, func(name string) bool { return name == inUse })
	kept = append(append(kept, inUse, young), others...)

	daemontest.StartRun(t, w.Host())
	daemontest.Await(t, "all that is replaced was removed", func() bool {
		return disk.Exists(daemontest.MetricsFile) && !slices.ContainsFunc(removed, disk.Exists)
	})
	for _, name := range kept {
		if !disk.Exists(name) {
			t.Errorf("%s was removed", name)
		}
	}
}
