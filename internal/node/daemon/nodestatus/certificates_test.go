package nodestatus_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// metrics reads the metrics file: one value per certificate, by file and subject.
func metrics(t *testing.T, w *sim.Windows) map[string]time.Time {
	t.Helper()
	content, err := w.Disk().Read(daemontest.MetricsFile)
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
	m := daemontest.NewFollower(t, daemontest.Options{Prepare: func(m *daemontest.Member) { m.Cluster.SetCertificateLife(90 * time.Minute) }})
	node := m.Request.Desired
	node.Certificates = daemontest.OtherAuthority(t)
	node.Files = append(slices.Clone(node.Files), desired.File{Path: `C:\k\kubelet-ca.crt`, Content: m.Cluster.CA})
	m.Follow(t, node)
	leaf, authority := time.Now().Add(90*time.Minute), time.Now().Add(1000*time.Hour)
	want := map[string]time.Time{
		desired.KubeletCertificates + `\kubelet-client-current.pem CN=system:node:win-1,O=system:nodes`:     leaf,
		desired.KubeletCertificates + `\kubelet-server-current.pem CN=system:node:win-1,O=system:nodes`:     leaf,
		desired.WICDCertificates + `\wicd-client-current.pem CN=system:wicd-node:win-1,O=system:wicd-nodes`: leaf,
		`C:\k\kubelet-ca.crt CN=simulated CA`:          authority,
		`LocalMachine\Root CN=simulated CA`:            authority,
		desired.KubeletKubeconfig + ` CN=simulated CA`: authority,
	}
	daemontest.Await(t, "the certificates are told", func() bool { return len(metrics(t, m.Windows)) == len(want) })
	for name, expiry := range metrics(t, m.Windows) {
		if away := expiry.Sub(want[name]).Abs(); away > time.Minute {
			t.Errorf("%s expires at %v, want %v", name, expiry, want[name])
		}
	}
}
