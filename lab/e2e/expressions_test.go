//go:build linux

package e2e

import (
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/deploy/monitoring"
)

// namedExpression is an expression and its location.
type namedExpression struct{ where, expr string }

// expressions returns the expressions of all recording rules and dashboards, for a node and a namespace. Those of alerts are excluded, because they
// have no result on a healthy cluster.
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
