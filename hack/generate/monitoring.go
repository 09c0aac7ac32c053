package main

import (
	"fmt"
	"strings"

	"github.com/windows-machine-config/wmco/internal/observe/monitoring"
	"github.com/windows-machine-config/wmco/internal/shared/metrics"
)

// monitoringFiles returns the files made from internal/observe/monitoring and internal/shared/metrics: those of deploy/monitoring,
// docs/metrics.md and docs/runbooks/README.md.
func monitoringFiles(string) (map[string][]byte, error) {
	files, err := monitoring.Files()
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{"docs/metrics.md": []byte(metricsPage()), "docs/runbooks/README.md": []byte(runbooksPage())}
	for name, content := range files {
		all["deploy/monitoring/"+name] = content
	}
	return all, nil
}

// metricsPage returns docs/metrics.md.
func metricsPage() string {
	var b strings.Builder
	b.WriteString(`# Metrics

<!-- Made by make generate from internal/shared/metrics. -->

[monitoring.md](monitoring.md) says how to scrape them. Every label has few values: those listed, or one for each host,
each service of a node or each certificate file.
`)
	section := func(title, text string, list []metrics.Metric) {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| metric | type | meaning | labels |\n| --- | --- | --- | --- |\n", title, text)
		for _, m := range list {
			var labels []string
			for _, l := range m.Labels {
				labels = append(labels, "`"+l.Name+"`: "+l.Values)
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Kind, m.Help, strings.Join(labels, "; "))
		}
	}
	section("Operator", "The operator serves them over HTTPS on port 9182, to clients whose token may get `/metrics`. It also\nserves those of its Go runtime and of controller-runtime.", metrics.Operator())
	section("Nodes", "The daemon on each node (WICD) writes them to a file; windows_exporter serves them with its own, over mutual TLS on\nport 9182 of the node.", metrics.Node())
	return b.String()
}

// runbooksPage returns the index of the runbooks.
func runbooksPage() string {
	var b strings.Builder
	b.WriteString(`# Runbooks

<!-- Made by make generate from internal/observe/monitoring. -->

A page for each alert of [deploy/monitoring](../../deploy/README.md#monitoring): what it means, how to find the cause,
and what to do. [monitoring.md](../monitoring.md) says how to install the alerts.

| alert | severity | after | summary |
| --- | --- | --- | --- |
`)
	for _, g := range monitoring.Alerts() {
		for _, r := range g.Rules {
			after := r.For
			if after == "" {
				after = "at once"
			}
			fmt.Fprintf(&b, "| [%s](%[1]s.md) | %s | %s | %s |\n", r.Alert, r.Labels["severity"], after, r.Annotations["summary"])
		}
	}
	return b.String()
}
