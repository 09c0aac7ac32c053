//go:build linux

package e2e

import (
	"strings"

	"github.com/windows-machine-config/wmco/internal/monitoring"
)

// namedExpression is an expression, and where it is.
type namedExpression struct{ where, expr string }

// expressions are those of all recording rules and dashboards, with a node and a namespace chosen. Those of alerts are not among them: they have
// no result where nothing is wrong.
func expressions(node, namespace string) []namedExpression {
	var all []namedExpression
	for _, g := range monitoring.RecordingRules() {
		for _, r := range g.Rules {
			all = append(all, namedExpression{"rule " + r.Record, r.Expr})
		}
	}
	chosen := strings.NewReplacer("$node", node, "$namespace", namespace)
	for _, d := range monitoring.Dashboards() {
		for _, p := range d.Panels {
			for _, t := range p.Targets {
				all = append(all, namedExpression{"dashboard " + d.UID + ": " + p.Title + " " + t.RefID, chosen.Replace(t.Expr)})
			}
		}
	}
	return all
}
