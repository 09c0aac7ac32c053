package nodestatus

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/credentials"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/metrics"
	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

// certificate returns a PEM certificate with a subject and a serial number that expires this many seconds after 1970.
func certificate(t *testing.T, subject string, serial, expires int64) string {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: subject}, NotAfter: time.Unix(expires, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestCertificatesBecomeLines(t *testing.T) {
	one, two := certificate(t, "one", 10, 2_000_000_000), certificate(t, `the "second" \ of all`, 255, 1)
	key := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("a secret")}))
	broken := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("no certificate")}))
	var b exposition
	b.lines(map[string]string{
		`C:\k\b.pem`: "a comment\n" + one + key + broken + two + one,
		`C:\k\a.pem`: one,
		"empty":      "",
		"no PEM":     "{}",
	}, func(file string, c *x509.Certificate) string {
		return line(api.MetricNodeCertificate, c.NotAfter.Unix(), file, fmt.Sprintf("%x", c.SerialNumber), c.Subject.String())
	})
	got := b.String()
	want := strings.Join([]string{
		`wicd_certificate_expiration_timestamp_seconds{file="C:\\k\\a.pem",serial="a",subject="CN=one"} 2000000000`,
		`wicd_certificate_expiration_timestamp_seconds{file="C:\\k\\b.pem",serial="a",subject="CN=one"} 2000000000`,
		`wicd_certificate_expiration_timestamp_seconds{file="C:\\k\\b.pem",serial="ff",subject="CN=the \\\"second\\\" \\\\ of all"} 1`,
	}, "\n") + "\n"
	if got != want {
		t.Errorf("the lines are\n%s\nwant\n%s", got, want)
	}
}

// counted is a source of counts.
type counted map[string]int64

func (c counted) Counts() map[string]int64   { return c }
func (c counted) Restarts() map[string]int64 { return c }

type policyCounts PolicyCounts

func (c policyCounts) PolicyCounts() PolicyCounts { return PolicyCounts(c) }

type rebootPending bool

func (r rebootPending) IsPending() (pending, known bool) { return bool(r), true }

func TestMetricsAreWritten(t *testing.T) {
	policies := policyCounts{IsKnown: true, Endpoints: 3, ACLs: 12, Failures: 1}
	for _, took := range []time.Duration{50 * time.Millisecond, 200 * time.Millisecond, 250 * time.Millisecond, time.Second, time.Hour} {
		policies.Effect.Observe(took)
	}
	m := &Metrics{Registry: counted{"served": 7}, Services: counted{"kubelet": 2, "containerd": 0}, Reboot: rebootPending(true), Policies: policies}
	m.Host.Disk = hostapi.Disk{Root: t.TempDir()}
	m.Record.Complete = true
	m.Record.Desired.Version, m.Wanted.Registries = "1.2.3-abc", &mirrors.Table{}
	m.SetNetwork(true)
	m.CountRepair()
	m.SetProblem("WindowsClockSkewed", true)
	m.SetProblem("WindowsCommitPressure", false)
	asked := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	m.setUpdates(updates{isConclusive: true, report: windowsupdate.Report{
		Read: asked, Searched: asked, Pending: []windowsupdate.Update{{Class: windowsupdate.Security}},
		History: []windowsupdate.Operation{{Date: asked, Result: windowsupdate.ResultSucceeded}},
	}})
	if _, err := m.Host.Disk.WriteFile(state.RecordFile, "{}"); err != nil {
		t.Fatal(err)
	}
	info, err := m.Host.Disk.Stat(state.RecordFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Write(); err != nil {
		t.Fatal(err)
	}
	text, err := m.Host.Disk.Read(metricsFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`wicd_build_info{version="1.2.3-abc"} 1`,
		fmt.Sprintf("wicd_settings_applied_timestamp_seconds %d", info.ModTime().Unix()),
		`wicd_service_restarts_total{service="containerd"} 0`,
		`wicd_service_restarts_total{service="kubelet"} 2`,
		"wicd_reboot_pending 1",
		`wicd_node_problem{condition="WindowsClockSkewed"} 1`,
		`wicd_node_problem{condition="WindowsCommitPressure"} 0`,
		`wicd_windows_updates_pending{class="security"} 1`,
		"wicd_windows_updates_overdue 0",
		"wicd_network_unavailable 1",
		"wicd_network_repairs_total 1",
		`wicd_registry_requests_total{result="served"} 7`,
		"wicd_network_policy_endpoints 3",
		"wicd_network_policy_acls 12",
		"wicd_network_policy_write_failures_total 1",
		`wicd_network_policy_effect_seconds_bucket{le="0.1"} 1`,
		`wicd_network_policy_effect_seconds_bucket{le="0.5"} 3`,
		`wicd_network_policy_effect_seconds_bucket{le="1"} 4`,
		`wicd_network_policy_effect_seconds_bucket{le="30"} 4`,
		`wicd_network_policy_effect_seconds_bucket{le="+Inf"} 5`,
		"wicd_network_policy_effect_seconds_sum 3601.5",
		"wicd_network_policy_effect_seconds_count 5",
	} {
		if !strings.Contains("\n"+string(text), "\n"+line+"\n") {
			t.Errorf("the metrics have no line %s:\n%s", line, text)
		}
	}
	for _, d := range metrics.Node() {
		if !strings.Contains(string(text), "# HELP "+d.Name+" "+d.Help+"\n# TYPE "+d.Name+" "+string(d.Kind)+"\n") {
			t.Errorf("metric %s is documented but not emitted:\n%s", d.Name, text)
		}
	}
	if n := strings.Count(string(text), "# TYPE "); n != len(metrics.Node()) {
		t.Errorf("there are %d metrics, documented are %d", n, len(metrics.Node()))
	}
}

func TestOwnCertificateLifetimesAreExported(t *testing.T) {
	m := &Metrics{}
	m.Host.Disk = hostapi.Disk{Root: t.TempDir()}
	m.Wanted.Certificates = certificate(t, "trusted", 1, 1000)
	own := credentials.CertificateFiles()[0]
	if _, err := m.Host.Disk.WriteFile(own, certificate(t, "own", 2, 5000)); err != nil {
		t.Fatal(err)
	}
	var b exposition
	m.writeCertificates(&b)
	want := fmt.Sprintf("%s{file=\"%s\",serial=\"2\"} ", api.MetricNodeCertificateLifetime, labelValue(own))
	if text := b.String(); !strings.Contains(text, want) || strings.Count(text, "\n"+api.MetricNodeCertificateLifetime+"{") != 1 {
		t.Errorf("want only the lifetime of %s:\n%s", own, text)
	}
}

// TestMetricsHaveOneWriterAtATime has a scanner that briefly holds the first file, during which Write is called again.
func TestMetricsHaveOneWriterAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		m := &Metrics{}
		m.Host.Disk = hostapi.Disk{Root: t.TempDir(), Before: func(op, _ string) error {
			if op == "rename" && time.Since(began) < 100*time.Millisecond {
				return hostapi.Code(32)
			}
			return nil
		}}
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				if err := m.Write(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	})
}
