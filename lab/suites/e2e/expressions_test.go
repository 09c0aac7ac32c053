//go:build linux

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/deploy/monitoring"
)

// namedExpression is an expression and its location.
type namedExpression struct{ where, expr string }

// expressions returns the expressions of all recording rules and dashboards, for a node and a namespace. It omits alerts, which have no result on a
// healthy cluster.
func expressions(t *testing.T, node, namespace string) []namedExpression {
	t.Helper()
	rules, err := monitoring.RecordingRules()
	if err != nil {
		t.Fatal(err)
	}
	dashboards, err := monitoring.Dashboards()
	if err != nil {
		t.Fatal(err)
	}
	var all []namedExpression
	for _, g := range rules {
		for _, r := range g.Rules {
			all = append(all, namedExpression{"rule " + r.Record, r.Expr})
		}
	}
	chosen := strings.NewReplacer("$node", node, "$namespace", namespace)
	for _, d := range dashboards {
		for _, p := range d.Panels {
			for _, t := range p.Targets {
				all = append(all, namedExpression{"dashboard " + d.UID + ": " + p.Title + " " + t.RefID, chosen.Replace(t.Expr)})
			}
		}
	}
	return all
}

// consoleQueries returns queries of the pages of a node and of a pod in OpenShift's console (frontend/packages/console-app/src/components/nodes and
// frontend/public/components of github.com/openshift/console in 2026). Where they name a record of OpenShift's own rules, it is the expression of that
// rule. address is the node's.
func consoleQueries(node, address, namespace, pod string) []string {
	instance, kubelet := fmt.Sprintf("instance=%q", node), fmt.Sprintf("instance=~%q", strings.ReplaceAll(address, ".", `\.`)+":.*")
	ofPod := fmt.Sprintf("namespace=%q,pod=%q", namespace, pod)
	files := "{" + instance + `,fstype!~"tmpfs|squashfs",mountpoint!~"/usr|/var"}`
	all := []string{
		"node_memory_MemTotal_bytes{" + instance + "} - node_memory_MemAvailable_bytes{" + instance + "}",
		"node_filesystem_size_bytes" + files + " - node_filesystem_avail_bytes" + files,
	}
	for _, name := range []string{"instance:node_cpu:rate:sum", "instance:node_num_cpu:sum", "node_memory_MemTotal_bytes", "node_filesystem_size_bytes"} {
		all = append(all, name+"{"+instance+"}")
	}
	for _, direction := range []string{"receive_bytes", "transmit_bytes"} {
		all = append(all, "rate(node_network_"+direction+"_total{"+instance+"}[3m])")
	}
	for _, labels := range []string{kubelet + `,pod!=""`, ofPod} { // the top pods of the node, and one pod
		all = append(all, `rate(container_cpu_usage_seconds_total{container="",`+labels+"}[5m])", `container_memory_working_set_bytes{container="",`+labels+"}")
	}
	return append(all, "pod_interface_network:container_network_receive_bytes:irate5m{"+ofPod+"}",
		"pod_interface_network:container_network_transmit_bytes_total:irate5m{"+ofPod+"}")
}
