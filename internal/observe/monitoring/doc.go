// Package monitoring defines what Prometheus and Grafana need for Windows nodes: scrape configurations, rules, alerts and dashboards.
// hack/generate writes them to deploy/monitoring in the forms of the Prometheus operator, OpenShift and Prometheus. It does no I/O.
package monitoring
