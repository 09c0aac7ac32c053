//go:build linux

package e2e

import (
	"context"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// expectDeclaredReasons checks that api declares the reason of each event that the operator and WICD reported in a test.
func expectDeclaredReasons(t *testing.T, env *testenv.Env) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var events eventsv1.EventList
	if err := env.Client.List(ctx, &events); err != nil {
		t.Logf("listing events: %v", err) // tests may stop the API server
		return
	}
	declared := declaredReasons(t)
	for _, e := range events.Items {
		own := e.ReportingController == api.WICDService || e.ReportingController == testenv.OperatorAccount
		if own && !slices.Contains(declared, e.Reason) {
			t.Errorf("event %q of %s %s has reason %s, which api does not declare", e.Note, e.Regarding.Kind, e.Regarding.Name, e.Reason)
		}
	}
}

// declaredReasons returns the reasons that api declares, from the generated document.
func declaredReasons(t *testing.T) (all []string) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/reference/reasons.md")
	must(t, err)
	for _, m := range regexp.MustCompile(`(?m)^### (\w+)$`).FindAllStringSubmatch(string(page), -1) {
		all = append(all, m[1])
	}
	return all
}
