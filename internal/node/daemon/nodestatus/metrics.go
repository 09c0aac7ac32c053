package nodestatus

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/daemon/credentials"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/metrics"
)

// metricsFile is added by windows_exporter's textfile collector to its own metrics, so that WICD needs no port.
const metricsFile = desired.Metrics + `\wicd.prom`

// countsInterval is how often counters are compared with those in the file.
const countsInterval = 15 * time.Second

// Metrics writes WICD's metrics for its node.
type Metrics struct {
	state.Session
	// Registry counts the requests of the registry on loopback by their result; nil if there is none.
	Registry interface{ Counts() map[string]int64 }
	// Services counts how often each service ended or was repaired; nil if there are none.
	Services interface{ Restarts() map[string]int64 }
	// Reboot reports whether Windows waits for a restart; nil if that is not checked.
	Reboot interface{ IsPending() (pending, known bool) }
	// Policies counts the rules by which NetworkPolicies are enforced; nil if none are.
	Policies interface{ PolicyCounts() PolicyCounts }

	mu sync.Mutex
	// isWriting means that a caller is writing the file, isStale that another one has called Write since.
	isWriting, isStale bool
	// isNetworkKnown is true once the pod network was checked.
	isNetworkKnown, isNetworkUnavailable bool
	repairs                              int
	// problems are the kinds of problems that were checked, and whether there is one.
	problems map[string]bool
	// updates is what is known about Windows updates; nil if nothing is.
	updates *updateMetrics
}

// SetNetwork records the state of the pod network.
func (m *Metrics) SetNetwork(isUnavailable bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.isNetworkKnown, m.isNetworkUnavailable = true, isUnavailable
}

// CountRepair records a repair of the pod network.
func (m *Metrics) CountRepair() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.repairs++
}

// SetProblem records whether a problem that is a condition of the Node persists.
func (m *Metrics) SetProblem(condition string, persists bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.problems == nil {
		m.problems = map[string]bool{}
	}
	m.problems[condition] = persists
}

// Run writes the metrics when a service ends, Windows waits for a restart, or a problem begins or ends, until ctx is done. Other parts write
// their own changes.
func (m *Metrics) Run(ctx context.Context) {
	for previous := ""; ctx.Err() == nil; _ = backoff.Sleep(ctx, countsInterval) {
		var b exposition
		m.writeCounts(&b)
		current := b.String()
		if current == previous {
			continue
		}
		err := m.IfIdle(m.Write) // not on a host that is leaving
		if err == nil {
			previous = current
		} else if !errors.Is(err, state.ErrBusy) {
			m.Log.Warn("Writing metrics failed", "error", err.Error())
		}
	}
}

// Write writes the expiry of the node's certificates, the state of its services and network, and its version. An unchanged file is not rewritten.
// One caller writes at a time, and writes again if others have called Write meanwhile.
func (m *Metrics) Write() error {
	if !m.begin() {
		return nil
	}
	for {
		if err := m.write(); m.end() {
			return err
		}
	}
}

// begin reports whether no other caller is writing the file.
func (m *Metrics) begin() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isWriting {
		m.isStale = true
		return false
	}
	m.isWriting = true
	return true
}

// end reports whether Write was not called since begin.
func (m *Metrics) end() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.isWriting, m.isStale = m.isStale, false
	return !m.isWriting
}

func (m *Metrics) write() error {
	var b exposition
	b.metric(api.MetricNodeBuildInfo)
	b.sample(api.MetricNodeBuildInfo, 1, m.Record.Desired.Version)
	if info, err := m.Host.Disk.Stat(state.RecordFile); err == nil && m.Record.Complete {
		b.metric(api.MetricNodeSettingsApplied)
		b.sample(api.MetricNodeSettingsApplied, info.ModTime().Unix())
	}
	m.writeCertificates(&b)
	m.writeCounts(&b)
	if m.Registry != nil && m.Wanted.Registries != nil {
		b.counts(api.MetricNodeRegistryRequests, m.Registry.Counts())
	}
	m.writeNetwork(&b)
	if _, err := m.Host.Disk.WriteFile(metricsFile, b.String()); err != nil {
		return fmt.Errorf("writing %s: %w", metricsFile, err)
	}
	return nil
}

func (m *Metrics) writeCounts(b *exposition) {
	if m.Services != nil {
		b.counts(api.MetricNodeServiceRestarts, m.Services.Restarts())
	}
	b.counts(api.MetricNodeProblem, m.countProblems())
	m.writePolicies(b)
	m.writeUpdates(b)
	if m.Reboot == nil {
		return
	}
	if pending, known := m.Reboot.IsPending(); known {
		b.metric(api.MetricNodeRebootPending)
		b.sample(api.MetricNodeRebootPending, numberOf(pending))
	}
}

func (m *Metrics) countProblems() map[string]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := map[string]int64{}
	for condition, persists := range m.problems {
		counts[condition] = numberOf(persists)
	}
	return counts
}

func (m *Metrics) writeNetwork(b *exposition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.isNetworkKnown {
		return
	}
	b.metric(api.MetricNodeNetworkUnavailable)
	b.sample(api.MetricNodeNetworkUnavailable, numberOf(m.isNetworkUnavailable))
	b.metric(api.MetricNodeNetworkRepairs)
	b.sample(api.MetricNodeNetworkRepairs, int64(m.repairs))
}

func (m *Metrics) writeCertificates(b *exposition) {
	own := map[string]string{}
	for _, name := range credentials.CertificateFiles() {
		if content, err := m.Host.Disk.Read(name); err == nil { // missing ones are left out
			own[name] = string(content)
		}
	}
	all := maps.Clone(own)
	all[desired.KubeletKubeconfig] = m.Record.Bootstrap.CA
	all[`LocalMachine\Root`] = m.Wanted.Certificates
	for _, f := range m.Wanted.Files {
		all[f.Path] = f.Content
	}
	b.metric(api.MetricNodeCertificate)
	b.lines(all, func(file string, c *x509.Certificate) string {
		return line(api.MetricNodeCertificate, c.NotAfter.Unix(), file, fmt.Sprintf("%x", c.SerialNumber), c.Subject.String())
	})
	b.metric(api.MetricNodeCertificateLifetime)
	b.lines(own, func(file string, c *x509.Certificate) string {
		return line(api.MetricNodeCertificateLifetime, int64(c.NotAfter.Sub(c.NotBefore).Seconds()), file, fmt.Sprintf("%x", c.SerialNumber))
	})
}

func numberOf(ok bool) int64 {
	if ok {
		return 1
	}
	return 0
}

// exposition is text in the Prometheus format.
type exposition struct{ strings.Builder }

// metric begins a metric.
func (b *exposition) metric(name string) {
	d := metrics.Of(name)
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", name, d.Help, name, d.Kind)
}

// sample adds a value with its label values.
func (b *exposition) sample(name string, value int64, labels ...string) {
	b.WriteString(line(name, value, labels...))
}

// counts adds a metric with one label.
func (b *exposition) counts(name string, counts map[string]int64) {
	b.metric(name)
	for _, label := range slices.Sorted(maps.Keys(counts)) {
		b.sample(name, counts[label], label)
	}
}

// lines adds a line for each certificate in the files, sorted and without duplicates.
func (b *exposition) lines(files map[string]string, line func(file string, c *x509.Certificate) string) {
	lines := map[string]bool{}
	for name, content := range files {
		for block, rest := pem.Decode([]byte(content)); block != nil; block, rest = pem.Decode(rest) {
			c, err := x509.ParseCertificate(block.Bytes)
			if block.Type == "CERTIFICATE" && err == nil {
				lines[line(name, c)] = true
			}
		}
	}
	b.WriteString(strings.Join(slices.Sorted(maps.Keys(lines)), ""))
}

func line(name string, value int64, labels ...string) string {
	var pairs []string
	for i, label := range metrics.Of(name).LabelNames() {
		pairs = append(pairs, label+`="`+labelValue(labels[i])+`"`)
	}
	if len(pairs) > 0 {
		name += "{" + strings.Join(pairs, ",") + "}"
	}
	return fmt.Sprintf("%s %d\n", name, value)
}

// labelValue escapes a label value (Prometheus' text format).
func labelValue(text string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(text, "?"))
}
