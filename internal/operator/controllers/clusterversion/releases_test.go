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
		"first version applies at once":                         {[]string{later}, []string{"1.34"}},
		"newer version applies after two minutes":               {[]string{old, later, later, later}, []string{"1.33", "1.33", "1.33", "1.34"}},
		"older of two versions applies":                         {[]string{old, old + " " + later, later + " " + old, later}, []string{"1.33", "1.33", "1.33", "1.33"}},
		"an old server that was away keeps nodes back":          {[]string{old, later, later + " " + old, later, later, later}, []string{"1.33", "1.33", "1.33", "1.33", "1.33", "1.34"}},
		"unknown version restarts the wait":                     {[]string{old, later, "", later, later, later}, []string{"1.33", "1.33", "1.33!", "1.33", "1.33", "1.34"}},
		"older version applies at once":                         {[]string{later, later + " " + old}, []string{"1.34", "1.33"}},
		"nodes keep their version while it is unknown":          {[]string{later, "", "latest", later}, []string{"1.34", "1.34!", "1.34!", "1.34"}},
		"no nodes before the first known version":               {[]string{"", later}, []string{"1.33!", "1.34"}},
		"nodes keep their version while the cluster is too old": {[]string{later, "v1.20.0", later}, []string{"1.34", "1.34!", "1.34"}},
		"newer cluster gets the newest version":                 {[]string{"v1.36.0"}, []string{"1.34"}},
		"cluster that is too new gets no new nodes":             {[]string{later, "v1.40.0"}, []string{"1.34", "1.34!"}},
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
		"first version applies at once without nodes":  {nil, []string{later}, []string{"1.34"}},
		"nodes with the same minor version":            {[]string{"v1.34.3"}, []string{later}, []string{"1.34"}},
		"some nodes with the new version":              {[]string{"v1.33.13", "v1.34.4"}, []string{later}, []string{"1.34"}},
		"newer nodes are downgraded at once":           {[]string{"v1.34.4"}, []string{old}, []string{"1.33"}},
		"unparsable version is ignored":                {[]string{"", "latest"}, []string{later}, []string{"1.34"}},
		"older nodes are upgraded after two minutes":   {[]string{"v1.33.13"}, []string{later, later, later}, []string{"1.33!", "1.33!", "1.34"}},
		"nodes older than any known version":           {[]string{"v1.32.1"}, []string{old, old, old}, []string{"1.33!", "1.33!", "1.33"}},
		"an old server that was away keeps nodes back": {[]string{"v1.33.13"}, []string{later, later + " " + old, later, later, later}, []string{"1.33!", "1.33", "1.33", "1.33", "1.34"}},
		"unknown version restarts the wait":            {[]string{"v1.33.13"}, []string{later, "", later, later, later}, []string{"1.33!", "1.33!", "1.33!", "1.33!", "1.34"}},
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
