//go:build linux

package deploytest

import (
	"context"
	"fmt"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// testWICDWatchesSettings uses WICD's own certificate. The original daemon had no permission to watch its ConfigMap, and
// noticed changes only when it listed ConfigMaps again. This one can only get and watch them.
func (c *cluster) testWICDWatchesSettings(t *testing.T) {
	h := c.newHost(t)
	own := c.obtain(t, h.clients, h.known(), certificatesv1.KubeAPIServerClientSignerName, "system:wicd-node:win-1", "system:wicd-nodes")
	wicd := own.CoreV1().ConfigMaps(namespace)
	operators := c.asOperator(t).CoreV1().ConfigMaps(namespace)
	publish := func(settings string) {
		t.Helper()
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "windows-services-1"}, Immutable: new(true), Data: map[string]string{"settings": settings}}
		must(t, errOf(operators.Create(t.Context(), cm, metav1.CreateOptions{})))
	}
	withdraw := func() {
		t.Helper()
		must(t, operators.Delete(t.Context(), "windows-services-1", metav1.DeleteOptions{}))
	}
	publish("first")
	w, err := wicd.Watch(t.Context(), byName("windows-services-1"))
	must(t, err)
	defer w.Stop()
	expectEvent(t, w, watch.Added, "first") // a watch without version starts with the existing objects
	withdraw()
	expectEvent(t, w, watch.Deleted, "first")
	publish("second")
	expectEvent(t, w, watch.Added, "second")
	withdraw()
	watches := func(options metav1.ListOptions) func(context.Context) error {
		return func(ctx context.Context) error { return watchErr(wicd.Watch(ctx, options)) }
	}
	try(t, []attempt{
		{"watch settings of another version in use", "", watches(byName("windows-services-2"))},
		{"watch settings of an unknown version", forbidden, watches(byName("windows-services-3"))},
		{"watch another ConfigMap", forbidden, watches(byName("windows-instances"))},
		{"watch all ConfigMaps", forbidden, watches(metav1.ListOptions{})},
		{"list settings", forbidden, func(ctx context.Context) error {
			return errOf(wicd.List(ctx, byName("windows-services-1")))
		}},
	})
}

// expectEvent reads the next event of a watch.
func expectEvent(t *testing.T, w watch.Interface, kind watch.EventType, settings string) {
	t.Helper()
	select {
	case e, open := <-w.ResultChan():
		cm, _ := e.Object.(*corev1.ConfigMap)
		if !open || e.Type != kind || cm == nil || cm.Data["settings"] != settings {
			t.Fatalf("got event %s (watch open: %t), want %s of settings %q", fmt.Sprint(e.Type, " ", e.Object), open, kind, settings)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("timed out waiting for event %s of settings %q", kind, settings)
	}
}
