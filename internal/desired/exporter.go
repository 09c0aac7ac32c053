package desired

import (
	"strings"

	"github.com/windows-machine-config/wmco/internal/tlsprofile"
)

// collectors are the original's, and textfile for what WICD itself has to say. A test in payload/windows-exporter compares
// them with those that the exporter has.
const collectors = "cpu,logical_disk,net,os,service,system,container,memory,cpu_info,textfile"

// netOptions leaves out what the collector of the network tells by default besides counters: series for the hardware address, the addresses and
// the state of each adapter, of which a node has one or more for each pod (nic_info, which the exporter calls experimental).
const netOptions = " --collector.net.enabled metrics"

// exporter serves metrics on port 9182. Like containerd it is a service only as a child of the service manager, and writes
// its log by itself. It ends at once where its certificate is missing, and reads it anew for each connection
// (web/tls_config.go of exporter-toolkit v0.17.1): nobody needs to tell it of a new one.
func exporter(in Inputs, folder string) Service {
	const name = ExporterService
	log := Log{Path: logPath(name)}
	return Service{
		Name:        name,
		Description: ServiceDescription(name),
		Command: folder + `\` + exporterProgram + ` --collectors.enabled ` + collectors + netOptions +
			` --collector.textfile.directories ` + Metrics + ` --web.config.file ` + exporterConfig + ` --log.level ` + level(in, name, "info", "debug", "debug") + ` --log.file ` + log.Path,
		Needs: []string{KubeletServing},
		Log:   log,
	}
}

// exporterWebConfig is exporter-toolkit's configuration of the server. The certificate is the node's own; who may read is
// who may speak to the kubelet with a certificate (docs/decisions/0008). The client CA is read for each connection, too.
func exporterWebConfig(offers *tlsprofile.Server) string {
	version, suites := tlsprofile.TLS12, ""
	if offers != nil {
		version = offers.MinVersion
		for _, s := range offers.CipherSuites {
			suites += "  - " + s + "\n"
		}
	}
	if suites != "" {
		suites = "  cipher_suites:\n" + suites
	}
	return "tls_server_config:\n" +
		"  cert_file: '" + KubeletServing + "'\n" +
		"  key_file: '" + KubeletServing + "'\n" +
		"  min_version: " + strings.TrimPrefix(version, "Version") + "\n" +
		suites +
		"  client_auth_type: RequireAndVerifyClientCert\n" +
		"  client_ca_file: '" + kubeletClientCA + "'\n"
}
