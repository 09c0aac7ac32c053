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

// expiries returns when the certificates in the metrics expire, by file and subject.
func expiries(t *testing.T, w *sim.Windows) map[string]time.Time {
	t.Helper()
	content, _ := w.Disk().Read(daemontest.MetricsFile) // it is written after a while
	line := regexp.MustCompile(`(?m)^wicd_certificate_expiration_timestamp_seconds\{file="(.*)",serial="[0-9a-f]+",subject="(.*)"\} ([0-9]+)$`)
	all := map[string]time.Time{}
	for _, m := range line.FindAllStringSubmatch(string(content), -1) {
		seconds, err := strconv.ParseInt(m[3], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.ReplaceAll(m[1], `\\`, `\`)+" "+m[2]] = time.Unix(seconds, 0)
	}
	return all
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
	daemontest.Await(t, "the certificates are reported", func() bool { return len(expiries(t, m.Windows)) == len(want) })
	for name, expiry := range expiries(t, m.Windows) {
		if away := expiry.Sub(want[name]).Abs(); away > time.Minute {
			t.Errorf("%s expires at %v, want %v", name, expiry, want[name])
		}
	}
}
