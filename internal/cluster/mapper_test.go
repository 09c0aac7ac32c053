package cluster

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// discoveries counts how often a cluster is asked for a kind that it does not have, until it has it.
type discoveries struct {
	meta.RESTMapper
	asked int
	has   bool
}

func (d *discoveries) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	d.asked++
	if !d.has {
		return nil, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
	}
	return &meta.RESTMapping{}, nil
}

func TestAKindThatIsNotThereIsNotAskedForAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &discoveries{}
		m := remembering(d)
		proxy, machine := schema.GroupKind{Group: openshiftConfig, Kind: "Proxy"}, schema.GroupKind{Group: "cluster.x-k8s.io", Kind: "Machine"}
		for range 3 {
			for _, version := range []string{"v1beta2", "v1beta1"} {
				if _, err := m.RESTMapping(machine, version); !meta.IsNoMatchError(err) {
					t.Fatalf("got %v, want that the kind is not there", err)
				}
			}
			if _, err := m.RESTMapping(proxy, "v1"); !meta.IsNoMatchError(err) {
				t.Fatalf("got %v, want that the kind is not there", err)
			}
		}
		if d.asked != 3 {
			t.Errorf("the cluster was asked %d times, want once for each kind and version", d.asked)
		}
		d.has = true
		time.Sleep(absentFor)
		for range 2 {
			if _, err := m.RESTMapping(proxy, "v1"); err != nil {
				t.Errorf("the kind came, and is not found: %v", err)
			}
		}
		if d.asked != 5 {
			t.Errorf("the cluster was asked %d times, want again for a kind that is there", d.asked)
		}
	})
}
