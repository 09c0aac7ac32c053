package nodestatus

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/windows-machine-config/wmco/internal/daemon/credentials"
	"github.com/windows-machine-config/wmco/internal/daemon/state"
	"github.com/windows-machine-config/wmco/internal/desired"
)

// metricsFile is what windows_exporter adds to its own metrics, with its collector textfile. So WICD needs no port.
const metricsFile = desired.Metrics + `\wicd.prom`

// What alerts are made of.
const (
	certificateMetric = "wicd_certificate_expiration_timestamp_seconds"
	networkMetric     = "wicd_network_unavailable"
	repairsMetric     = "wicd_network_repairs_total"
	registryMetric    = "wicd_registry_requests_total"
)

// Metrics writes what WICD has to tell to the metrics of its node.
type Metrics struct {
	state.Session
	// Registry counts the requests of the registry on loopback by their result; nil: there is none.
	Registry interface{ Counts() map[string]int64 }

	mu sync.Mutex
	// isNetworkKnown is true once the network of pods was looked at.
	isNetworkKnown, isNetworkUnavailable bool
	repairs                              int
}

// SetNetwork takes notice of how the network of pods is.
func (m *Metrics) SetNetwork(isUnavailable bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.isNetworkKnown, m.isNetworkUnavailable = true, isUnavailable
}

// CountRepair takes notice of a repair of the network of pods.
func (m *Metrics) CountRepair() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.repairs++
}

// Write writes when each certificate of the node expires, and how its network is. It writes nothing when that is there already.
func (m *Metrics) Write() error {
	var b strings.Builder
	metric := func(name, kind, help string) { fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind) }
	metric(certificateMetric, "gauge", "When a certificate on this node expires, in seconds since 1970.")
	b.WriteString(certificateLines(m.certificates()))
	if m.Registry != nil && m.Wanted.Registries != nil {
		metric(registryMetric, "counter", "Requests to the registry on loopback, which serves containerd from mirrors, since the daemon started.")
		counts := m.Registry.Counts()
		for _, result := range slices.Sorted(maps.Keys(counts)) {
			fmt.Fprintf(&b, "%s{result=\"%s\"} %d\n", registryMetric, labelValue(result), counts[result])
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isNetworkKnown {
		metric(networkMetric, "gauge", "1 while the network of pods is not as it should be.")
		unavailable := 0
		if m.isNetworkUnavailable {
			unavailable = 1
		}
		fmt.Fprintf(&b, "%s %d\n", networkMetric, unavailable)
		metric(repairsMetric, "counter", "How often the pod network was repaired since the daemon started, or since its settings changed.")
		fmt.Fprintf(&b, "%s %d\n", repairsMetric, m.repairs)
	}
	if _, err := m.Host.Disk.WriteFile(metricsFile, b.String()); err != nil {
		return fmt.Errorf("writing %s: %w", metricsFile, err)
	}
	return nil
}

// certificates are the files of the node with certificates in them, as PEM. One that is not there yet is left out.
func (m *Metrics) certificates() map[string]string {
	files := map[string]string{
		desired.KubeletKubeconfig: m.Record.Bootstrap.CA,
		`LocalMachine\Root`:       m.Wanted.Certificates,
	}
	for _, f := range m.Wanted.Files {
		files[f.Path] = f.Content
	}
	for _, name := range credentials.CertificateFiles() {
		if b, err := m.Host.Disk.Read(name); err == nil {
			files[name] = string(b)
		}
	}
	return files
}

// certificateLines has a line for each certificate in the files, sorted.
func certificateLines(files map[string]string) string {
	lines := map[string]bool{}
	for name, content := range files {
		for block, rest := pem.Decode([]byte(content)); block != nil; block, rest = pem.Decode(rest) {
			c, err := x509.ParseCertificate(block.Bytes)
			if block.Type != "CERTIFICATE" || err != nil {
				continue
			}
			labels := fmt.Sprintf(`file="%s",serial="%x",subject="%s"`, labelValue(name), c.SerialNumber, labelValue(c.Subject.String()))
			lines[fmt.Sprintf("%s{%s} %d\n", certificateMetric, labels, c.NotAfter.Unix())] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(lines)), "")
}

// labelValue writes a text as the value of a label (Prometheus' text format).
func labelValue(text string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(text, "?"))
}
