package update_test

import (
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// expectNoUpdate fails if an update begins.
func (u *updatable) expectNoUpdate(t *testing.T) {
	t.Helper()
	if u.Windows.Service(api.WICDUpdateService).Name != "" || u.Windows.Disk().Exists(desired.State+`\update.json`) {
		t.Fatal("an update has begun")
	}
	daemontest.ExpectJoined(t, u.Windows, u.Request)
}

// TestVersionChangesOnlyByOrder: the Node's kubelet, and every user who may patch Nodes, may write its annotations.
func TestVersionChangesOnlyByOrder(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		message string
		order   func(*updatable) any
	}{
		"no order":    {"is missing", func(*updatable) any { return nil }},
		"no order's":  {"serial", func(*updatable) any { return "yes" }},
		"another key": {"not signed with key", func(u *updatable) any { return u.order(u.next.Version).Sign(99, daemontest.SigningKey(2)) }},
		"for another version": {"not signed with key", func(u *updatable) any {
			return u.order(u.Request.Desired.Version).Sign(99, daemontest.SigningKey(1))
		}},
		"for another node": {"not signed with key", func(u *updatable) any {
			o := u.order(u.next.Version)
			o.Node += "x"
			return o.Sign(99, daemontest.SigningKey(1))
		}},
		"for the Node that was deleted": {"not signed with key", func(u *updatable) any {
			order := u.order(u.next.Version).Sign(99, daemontest.SigningKey(1))
			u.Cluster.Patch(daemontest.NodePath, map[string]any{"metadata": map[string]any{"uid": "another"}})
			return order
		}},
		"for another cluster": {"not signed with key", func(u *updatable) any {
			o := u.order(u.next.Version)
			o.Cluster = "another"
			return o.Sign(99, daemontest.SigningKey(1))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUpdatable(t, nil, "", time.Minute)
			u.annotate(u.next.Version, test.order(u))
			u.AwaitNote(t, api.EventVersionRefused, test.message)
			u.AwaitLog(t, "Version refused")
			u.expectNoUpdate(t)
			u.annotate(u.Request.Desired.Version, nil) // its current version needs no order
			u.AwaitVersion(t)
			u.Serial = 100
			u.requestVersion(u.next.Version)
			u.awaitNext(t)
		})
	}
}

// TestOrderIsAppliedOnce: an attacker who has seen an order must not return the host to a version that it has left.
func TestOrderIsAppliedOnce(t *testing.T) {
	t.Parallel()
	own := desired.State + `\version-order.json`
	for name, lose := range map[string]func(*testing.T, *updatable){
		"as it is":         func(*testing.T, *updatable) {},
		"one file is cut":  func(t *testing.T, u *updatable) { daemontest.MustWrite(t, u.Windows.Disk(), own, `{"uid":`) },
		"one file is gone": func(t *testing.T, u *updatable) { mustRemove(t, u, own) },
		"the other is empty": func(t *testing.T, u *updatable) {
			daemontest.MustWrite(t, u.Windows.Disk(), desired.State+`\version-order.copy.json`, "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUpdatable(t, nil, "", time.Minute)
			u.Cluster.Patch(daemontest.NodePath, map[string]any{"metadata": map[string]any{"uid": "one"}})
			u.Serial = 10
			u.requestVersion(u.next.Version)
			found := u.Node().Annotations[api.AnnotationVersionOrder]
			u.awaitNext(t)
			u.requestVersion(u.Request.Desired.Version)
			u.Publish(t, u.Request.Desired)
			u.AwaitVersion(t)
			u.awaitQuiet(t)
			lose(t, u)
			u.Windows.Restart()
			u.AwaitVersion(t)
			u.annotate(u.next.Version, found)
			u.AwaitNote(t, api.EventVersionRefused, "not newer than the last one applied")
			u.expectNoUpdate(t)
			u.requestVersion(u.next.Version)
			u.awaitNext(t)
		})
	}
}

// TestOrderForCurrentVersionInvalidatesOlderOrders: a join brings a host to a version without that order.
func TestOrderForCurrentVersionInvalidatesOlderOrders(t *testing.T) {
	t.Parallel()
	u := newUpdatable(t, nil, "", time.Minute)
	older := u.order(u.next.Version).Sign(50, daemontest.SigningKey(1))
	u.annotate(u.Request.Desired.Version, u.order(u.Request.Desired.Version).Sign(51, daemontest.SigningKey(1)))
	daemontest.Await(t, "the order is noted", func() bool {
		b, err := u.Windows.Disk().Read(desired.State + `\version-order.json`)
		return err == nil && strings.Contains(string(b), "51")
	})
	u.annotate(u.next.Version, older)
	u.AwaitNote(t, api.EventVersionRefused, "not newer than the last one applied")
	u.expectNoUpdate(t)
}

func mustRemove(t *testing.T, u *updatable, name string) {
	t.Helper()
	if err := u.Windows.Disk().Remove(name); err != nil {
		t.Fatal(err)
	}
}

// TestOldSettingsOfFormerVersionAreRefused: an order names a version, not its settings. Restoring settings that were signed for it long
// ago does not bring a host to them.
func TestOldSettingsOfFormerVersionAreRefused(t *testing.T) {
	t.Parallel()
	u := newUpdatable(t, nil, "", time.Minute)
	own, changed := u.Request.Desired.Version, u.Changed()
	u.PublishAs(t, own, u.Sign(t, own, changed, 1, 40))
	u.AwaitSettings(t, changed)
	u.Serial = 50
	u.requestVersion(u.next.Version)
	u.AwaitAnnotation(t, api.AnnotationVersion, u.next.Version)
	u.awaitQuiet(t)
	u.PublishAs(t, own, u.Sign(t, own, u.Request.Desired, 1, 39))
	u.requestVersion(own)
	u.AwaitNote(t, api.EventSettingsRefused, "older than the settings that the host last had")
	u.PublishAs(t, own, u.Sign(t, own, changed, 1, 40))
	u.requestVersion(own)
	u.AwaitVersion(t)
}
