package daemon

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/internal/desired"
)

// metricsFile is what windows_exporter adds to its own metrics, with its collector textfile. So WICD needs no port.
const metricsFile = desired.Metrics + `\wicd.prom`

// certificateMetric is what alerts are made of.
const certificateMetric = "wicd_certificate_expiration_timestamp_seconds"

// tellCertificates writes when each certificate of the node expires. It writes nothing when that is there already.
func (l *life) tellCertificates() error {
	var b strings.Builder
	fmt.Fprintf(&b, "# HELP %s When a certificate on this node expires, in seconds since 1970.\n# TYPE %s gauge\n", certificateMetric, certificateMetric)
	b.WriteString(certificateLines(l.certificates()))
	if _, err := l.host.Disk.WriteFile(metricsFile, b.String()); err != nil {
		return fmt.Errorf("writing %s: %w", metricsFile, err)
	}
	return nil
}

// certificates are the files of the node with certificates in them, as PEM. One that is not there yet is left out.
func (l *life) certificates() map[string]string {
	files := map[string]string{
		desired.KubeletKubeconfig: l.record.Bootstrap.CA,
		`LocalMachine\Root`:       l.wanted.Certificates,
	}
	for _, f := range l.wanted.Files {
		files[f.Path] = f.Content
	}
	for _, name := range []string{kubeletClientFile, kubeletServerFile, identityFile} {
		if b, err := l.host.Disk.Read(name); err == nil {
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
