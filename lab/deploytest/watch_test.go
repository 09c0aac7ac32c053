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

// testWICDHearsOfChanges shows WICD's own certificate. The original's daemon had no right to watch the ConfigMap that it followed, so
// that a change reached it when it happened to list it anew. Ours cannot list: what it hears, it hears by its watch.
func (c *cluster) testWICDHearsOfChanges(t *testing.T) {
	h := c.newHost(t)
	own := c.obtain(t, h.clients, h.known(), certificatesv1.KubeAPIServerClientSignerName, "system:wicd-node:win-1", "system:wicd-nodes")
	wicd := own.CoreV1().ConfigMaps(namespace)
	operators := c.asOperator(t).CoreV1().ConfigMaps(namespace)
	publish := func(settings string) {
		t.Helper()
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "windows-services-1"}, Immutable: new(true), Data: map[string]string{"settings": settings}}
		if _, err := operators.Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	withdraw := func() {
		t.Helper()
		if err := operators.Delete(t.Context(), "windows-services-1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	publish("first")
	w, err := wicd.Watch(t.Context(), byName("windows-services-1"))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	expectHeard(t, w, watch.Added, "first") // a watch without version begins with what there is
	withdraw()
	expectHeard(t, w, watch.Deleted, "first")
	publish("second")
	expectHeard(t, w, watch.Added, "second")
	withdraw()
	watches := func(options metav1.ListOptions) func(context.Context) error {
		return func(ctx context.Context) error {
			w, err := wicd.Watch(ctx, options)
			if err == nil {
				w.Stop()
			}
			return err
		}
	}
	try(t, []attempt{
		{"watches what nodes of another version in use must have", "", watches(byName("windows-services-2"))},
		{"watches what nodes of a version that is not there must have", forbidden, watches(byName("windows-services-3"))},
		{"watches another ConfigMap", forbidden, watches(byName("windows-instances"))},
		{"watches all ConfigMaps", forbidden, watches(metav1.ListOptions{})},
		{"lists what nodes must have", forbidden, func(ctx context.Context) error {
			return drop(wicd.List(ctx, byName("windows-services-1")))
		}},
	})
}

// expectHeard takes the next event of a watch.
func expectHeard(t *testing.T, w watch.Interface, kind watch.EventType, settings string) {
	t.Helper()
	select {
	case e, open := <-w.ResultChan():
		cm, _ := e.Object.(*corev1.ConfigMap)
		if !open || e.Type != kind || cm == nil || cm.Data["settings"] != settings {
			t.Fatalf("heard %s (the watch is open: %t), want %s of settings %q", fmt.Sprint(e.Type, " ", e.Object), open, kind, settings)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("nothing was heard; want %s of settings %q", kind, settings)
	}
}
