package kube

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestListsAreReadInPages simulates the lists of an API server: with a limit, it returns a page and a continue token. Without a limit, or if the
// client requires a minimum version, it returns all objects.
func TestListsAreReadInPages(t *testing.T) {
	const stored = 2*pageSize + 3
	var sizes []int
	list := func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
		first, _ := strconv.Atoi(o.Continue)
		end := stored
		if o.Limit > 0 && o.ResourceVersion == "" {
			end = min(first+int(o.Limit), stored)
		}
		page := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
		if end < stored {
			page.Continue = strconv.Itoa(end)
		}
		for n := first; n < end; n++ {
			page.Items = append(page.Items, corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint(n), UID: "of", ResourceVersion: "3"}, Data: map[string]string{"a": strings.Repeat("x", 1000)},
			})
		}
		sizes = append(sizes, end-first)
		return page, nil
	}
	for _, wanted := range []string{"", "0", "5"} {
		sizes = nil
		all, err := listInPages(t.Context(), list, metav1.ListOptions{ResourceVersion: wanted, Limit: 500}, Identities)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(sizes); got != fmt.Sprint([]int{pageSize, pageSize, 3}) {
			t.Errorf("wanted version %q: the pages have %s objects", wanted, got)
		}
		items, err := meta.ExtractList(all)
		if err != nil || len(items) != stored {
			t.Fatalf("wanted version %q: the list has %d items (%v)", wanted, len(items), err)
		}
		for n, item := range items {
			cm := item.(*corev1.ConfigMap)
			if cm.Name != fmt.Sprint(n) || cm.ResourceVersion != "3" || cm.Data != nil {
				t.Errorf("wanted version %q: item %d is %+v", wanted, n, cm)
			}
		}
		if m, err := meta.ListAccessor(all); err != nil || m.GetResourceVersion() != "7" || m.GetContinue() != "" {
			t.Errorf("wanted version %q: the list is %+v (%v)", wanted, m, err)
		}
	}
}
