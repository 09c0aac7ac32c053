// Package monitoring is what Prometheus and Grafana need for Windows nodes: what is scraped and how, the rules, the alerts and the dashboards.
// From it, hack/monitoring writes deploy/monitoring in the forms of the Prometheus operator, of OpenShift and of Prometheus itself. It is pure.
package monitoring
