package desired

import (
	"strings"

	"github.com/windows-machine-config/wmco/internal/shared/tlsprofile"
)

// collectors are the original's, plus textfile for WICD's own metrics. A test in payload/windows-exporter compares them with those of the
// exporter.
const collectors = "cpu,logical_disk,net,os,service,system,container,memory,cpu_info,textfile"

// netOptions limits the network collector to counters. By default it also exports series for the hardware address, the addresses and the state
// of each adapter (nic_info, which the exporter calls experimental), and a node has one or more adapters per pod.
const netOptions = " --collector.net.enabled metrics"

// exporter serves metrics on port 9182. Like containerd, it is a service only as a child of the service manager, and writes its log itself. It
// exits immediately if its certificate is missing, and reads it again for each connection (web/tls_config.go of exporter-toolkit v0.17.1), so a
// renewed certificate needs no restart.
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

// exporterWebConfig returns exporter-toolkit's configuration of the server. The certificate is the node's own. The clients that may connect are
// those with a certificate that the kubelet accepts (docs/decisions/0008). The client CA is read for each connection, too.
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
