package daemon_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sim/servers"
)

const metricsFile = desired.Metrics + `\wicd.prom`

func TestSettingsOfTheMachineAreRestored(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
	mustSend(t, w, c)
	r := newRequest(c)
	r.Desired.Environment = map[string]string{"NO_PROXY": ".svc"}
	r.Desired.WatchedEnvironment = []string{"HTTP_PROXY", "NO_PROXY"}
	r.Desired.Certificates = otherAuthority(t)
	mustJoin(t, w, r)
	want := w.Environment()
	harm := func() {
		w.SetVariable("NO_PROXY", "mine")
		w.SetVariable("HTTP_PROXY", "http://mine")
		hash := mustTrustOne(t, w)
		if _, err := w.Host().Certificates.Remove(t.Context(), hash); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		const begins = 11 * time.Second // a part that finds another one running retries after 10 s
		for _, wait := range []time.Duration{begins, servicesLook} {
			harm()
			stop := startRun(t, w)
			time.Sleep(wait)
			mustTrustOne(t, w)
			if diff := cmp.Diff(want, w.Environment()); diff != "" {
				t.Errorf("after %v the environment is (-want +got):\n%s", wait, diff)
			}
			if wait == begins {
				harm()
				time.Sleep(servicesLook)
				mustTrustOne(t, w)
			}
			stop()
		}
	})
}

// The kubelet's program is replaced while it is stopped, then it starts again.
func TestReplacedProgramsAreRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := withoutCluster(t, sim.WindowsOptions{})
		program := desired.VersionFolder(r.Desired.Digest) + `\kubelet.exe`
		stop := startRun(t, w)
		defer stop()
		time.Sleep(time.Second)
		before := map[string]uint32{}
		for _, s := range r.Desired.Services {
			before[s.Name] = w.Service(s.Name).PID
		}
		mustWrite(t, w.Disk(), program, "somebody else's")
		time.Sleep(servicesLook)
		expectJoined(t, w, r)
		for name, pid := range before {
			if again := w.Service(name).PID != pid; again != (name == "kubelet") {
				t.Errorf("%s was started again: %v", name, again)
			}
		}
		journal, err := w.Disk().Read(journalFile)
		if err != nil || !strings.Contains(string(journal), `kubelet.exe linked to content`) {
			t.Errorf("the journal does not tell of it, %v", err)
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

// metrics reads the metrics file: one value per certificate, by file and subject.
func metrics(t *testing.T, w *sim.Windows) map[string]time.Time {
	t.Helper()
	content, err := w.Disk().Read(metricsFile)
	if err != nil {
		return nil
	}
	line := regexp.MustCompile(`^wicd_certificate_expiration_timestamp_seconds\{file="(.*)",serial="[0-9a-f]+",subject="(.*)"\} ([0-9]+)$`)
	expiries := map[string]time.Time{}
	for text := range strings.Lines(string(content)) {
		if !strings.HasPrefix(text, "wicd_certificate_expiration_") {
			continue
		}
		parts := line.FindStringSubmatch(strings.TrimSuffix(text, "\n"))
		if parts == nil {
			t.Fatalf("the line is %q", text)
		}
		seconds, err := strconv.ParseInt(parts[3], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		expiries[strings.ReplaceAll(parts[1], `\\`, `\`)+" "+parts[2]] = time.Unix(seconds, 0)
	}
	return expiries
}

func TestEveryCertificateOfTheNodeIsInAMetric(t *testing.T) {
	t.Parallel()
	m := newMember(t, func(c *servers.Cluster) { c.SetCertificateLife(90 * time.Minute) })
	m.giveRange(t)
	m.awaitVersion(t)
	node := m.request.Desired
	node.Certificates = otherAuthority(t)
	node.Files = append(slices.Clone(node.Files), desired.File{Path: `C:\k\kubelet-ca.crt`, Content: m.cluster.CA})
	m.publish(t, node)
	m.awaitSettings(t, node)
	leaf, authority := time.Now().Add(90*time.Minute), time.Now().Add(1000*time.Hour)
	want := map[string]time.Time{
		desired.KubeletCertificates + `\kubelet-client-current.pem CN=system:node:win-1,O=system:nodes`:     leaf,
		desired.KubeletCertificates + `\kubelet-server-current.pem CN=system:node:win-1,O=system:nodes`:     leaf,
		desired.WICDCertificates + `\wicd-client-current.pem CN=system:wicd-node:win-1,O=system:wicd-nodes`: leaf,
		`C:\k\kubelet-ca.crt CN=simulated CA`:          authority,
		`LocalMachine\Root CN=simulated CA`:            authority,
		desired.KubeletKubeconfig + ` CN=simulated CA`: authority,
	}
	m.await(t, "the certificates are told", func() bool { return len(metrics(t, m.windows)) == len(want) })
	for name, expiry := range metrics(t, m.windows) {
		if away := expiry.Sub(want[name]).Abs(); away > patience {
			t.Errorf("%s expires at %v, want %v", name, expiry, want[name])
		}
	}
}

func TestReplacedCertificatesAreRemoved(t *testing.T) {
	w, _ := withoutCluster(t, sim.WindowsOptions{})
	disk := w.Disk()
	long := time.Now().Add(-24 * time.Hour)
	dated := func(folder, kind string, day int, content string) string {
		name := fmt.Sprintf(`%s\%s-2026-11-%02d-10-00-00.pem`, folder, kind, day)
		mustWrite(t, disk, name, content)
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
		mustWrite(t, disk, kubelet+`\`+kind+`-current.pem`, kind+"5")
	}
	mustWrite(t, disk, wicd+`\wicd-client-current.pem`, "of today")
	// The clock was set back: the file in use has an old name, and so has a recent file.
	mustWrite(t, disk, kubelet+`\kubelet-server-current.pem`, "kubelet-server2")
	young := kubelet + `\kubelet-client-2026-10-01-10-00-00.pem`
	mustWrite(t, disk, young, "made a moment ago")
	others := []string{kubelet + `\kubelet-client-2026.pem`, kubelet + `\kubelet.crt`, kubelet + `\x-2026-11-01-10-00-00.key`}
	for _, name := range others {
		mustWrite(t, disk, name, "of others")
	}
	inUse := kubelet + `\kubelet-server-2026-11-02-10-00-00.pem`
	removed = slices.DeleteFunc(removed, func(name string) bool { return name == inUse })
	kept = append(append(kept, inUse, young), others...)

	startRun(t, w)
	waitFor(t, "all that is replaced is gone", func() bool {
		return disk.Exists(metricsFile) && !slices.ContainsFunc(removed, disk.Exists)
	})
	for _, name := range kept {
		if !disk.Exists(name) {
			t.Errorf("%s is gone", name)
		}
	}
}

func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still waiting after %v until %s", patience, what)
		}
	}
}
