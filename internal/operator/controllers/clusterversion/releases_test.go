package clusterversion_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/operator/controllers/clusterversion"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/kubeversions"
	"github.com/windows-machine-config/wmco/payload"
)

// TestNodesFollowTheCluster: API servers report one version after the other, a minute apart.
func TestNodesFollowTheCluster(t *testing.T) {
	const old, later = "v1.33.5", "v1.34.1"
	for name, test := range map[string]struct {
		versions []string // by all API servers, each minute
		want     []string // the minor version for nodes, with ! if no new node may have it
	}{
		"the first answer counts at once":                  {[]string{later}, []string{"1.34"}},
		"a later one counts after two minutes":             {[]string{old, later, later, later}, []string{"1.33", "1.33", "1.33", "1.34"}},
		"the older of two counts":                          {[]string{old, old + " " + later, later + " " + old, later}, []string{"1.33", "1.33", "1.33", "1.33"}},
		"an old server that was away keeps nodes back":     {[]string{old, later, later + " " + old, later, later, later}, []string{"1.33", "1.33", "1.33", "1.33", "1.33", "1.34"}},
		"what is unknown in between does not count":        {[]string{old, later, "", later, later, later}, []string{"1.33", "1.33", "1.33!", "1.33", "1.33", "1.34"}},
		"an earlier one counts at once":                    {[]string{later, later + " " + old}, []string{"1.34", "1.33"}},
		"nodes stay while nothing is known":                {[]string{later, "", "latest", later}, []string{"1.34", "1.34!", "1.34!", "1.34"}},
		"nothing was ever known":                           {[]string{"", later}, []string{"1.33!", "1.34"}},
		"nodes stay while the cluster is too old":          {[]string{later, "v1.20.0", later}, []string{"1.34", "1.34!", "1.34"}},
		"a cluster that is newer gets the newest there is": {[]string{"v1.36.0"}, []string{"1.34"}},
		"a cluster that is too new gets no new nodes":      {[]string{later, "v1.40.0"}, []string{"1.34", "1.34!"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reported := ""
				r := clusterversion.New(kubeversions.Of("1.0.0", payload.New(controllertest.Kubelets("v1.33.13", "v1.34.4"), payload.File{})), func(context.Context) []string { return strings.Fields(reported) }, kubelets())
				changed := r.Changed()
				before := "1.33!"
				for i := range test.versions {
					reported = test.versions[i]
					r.Update(t.Context())
					got, finding := nodesGet(r)
					if got != test.want[i] {
						t.Errorf("minute %d, API servers %q: nodes get %s (%s), want %s", i, reported, got, finding, test.want[i])
					}
					if notified := len(changed) == 1; notified != (got != before) {
						t.Errorf("minute %d: %q after %q, an event: %v", i, got, before, notified)
					}
					for len(changed) > 0 {
						<-changed
					}
					before = got
					time.Sleep(time.Minute)
				}
			})
		})
	}
}

// kubelets returns a function with the versions that nodes report.
func kubelets(versions ...string) func(context.Context) ([]string, error) {
	return func(context.Context) ([]string, error) { return versions, nil }
}

// TestOperatorStartDuringClusterUpgrade: the operator may see the new API servers first.
func TestOperatorStartDuringClusterUpgrade(t *testing.T) {
	const old, later = "v1.33.5", "v1.34.1"
	for name, test := range map[string]struct {
		nodes    []string
		versions []string // by all API servers, each minute
		want     []string // the minor version for nodes, with ! while they stay as they are
	}{
		"without nodes, the first answer counts":        {nil, []string{later}, []string{"1.34"}},
		"nodes of the same minor version go on":         {[]string{"v1.34.3"}, []string{later}, []string{"1.34"}},
		"some are there already":                        {[]string{"v1.33.13", "v1.34.4"}, []string{later}, []string{"1.34"}},
		"newer ones go back at once":                    {[]string{"v1.34.4"}, []string{old}, []string{"1.33"}},
		"what cannot be parsed is ignored":              {[]string{"", "latest"}, []string{later}, []string{"1.34"}},
		"older ones follow after two minutes":           {[]string{"v1.33.13"}, []string{later, later, later}, []string{"1.33!", "1.33!", "1.34"}},
		"older ones than any that the operator carries": {[]string{"v1.32.1"}, []string{old, old, old}, []string{"1.33!", "1.33!", "1.33"}},
		"an old server that was away keeps nodes back":  {[]string{"v1.33.13"}, []string{later, later + " " + old, later, later, later}, []string{"1.33!", "1.33", "1.33", "1.33", "1.34"}},
		"nothing is known in between":                   {[]string{"v1.33.13"}, []string{later, "", later, later, later}, []string{"1.33!", "1.33!", "1.33!", "1.33!", "1.34"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reported := ""
				r := clusterversion.New(kubeversions.Of("1.0.0", payload.New(controllertest.Kubelets("v1.33.13", "v1.34.4"), payload.File{})),
					func(context.Context) []string { return strings.Fields(reported) }, kubelets(test.nodes...))
				for i := range test.versions {
					reported = test.versions[i]
					r.Update(t.Context())
					got, finding := nodesGet(r)
					if got != test.want[i] {
						t.Errorf("minute %d, API servers %q: nodes get %s (%s), want %s", i, reported, got, finding, test.want[i])
					}
					time.Sleep(time.Minute)
				}
			})
		})
	}
}

func TestUnreadableNodesKeepOldestRelease(t *testing.T) {
	r := clusterversion.New(kubeversions.Of("1.0.0", payload.New(controllertest.Kubelets("v1.33.13", "v1.34.4"), payload.File{})),
		func(context.Context) []string { return []string{"v1.34.1"} }, func(context.Context) ([]string, error) { return nil, errors.New("timeout") })
	r.Update(t.Context())
	if current, finding := r.Current(); current.Minor != "1.33" || !strings.Contains(finding, "timeout") {
		t.Errorf("nodes get %s, finding %q", current.Minor, finding)
	}
}

// nodesGet returns the minor version for nodes, with an exclamation mark if no host may become one.
func nodesGet(r *clusterversion.Releases) (minor, finding string) {
	current, finding := r.Current()
	if finding != "" {
		return current.Minor + "!", finding
	}
	return current.Minor, ""
}
