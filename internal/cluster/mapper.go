package cluster

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// absentFor is how long it is taken for granted that a cluster has no such kind, after it said so.
const absentFor = 10 * time.Second

// mapper remembers for a moment which kinds a cluster does not have. Each look at a cluster that is not OpenShift would ask for
// OpenShift's kinds again, by a discovery for each, and every host that joins takes a look.
type mapper struct {
	meta.RESTMapper
	mu     sync.Mutex
	absent map[askedFor]absence
}

type askedFor struct {
	kind     schema.GroupKind
	versions string
}

type absence struct {
	err  error
	till time.Time
}

// Mapper finds out which kinds the cluster has. One that it does not have is found at most ten seconds after it came.
func Mapper(config *rest.Config, c *http.Client) (meta.RESTMapper, error) {
	discovers, err := apiutil.NewDynamicRESTMapper(config, c)
	if err != nil {
		return nil, err
	}
	return remembering(discovers), nil
}

func remembering(m meta.RESTMapper) *mapper {
	return &mapper{RESTMapper: m, absent: map[askedFor]absence{}}
}

// RESTMapping implements meta.RESTMapper.
func (m *mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	what := askedFor{kind, strings.Join(versions, " ")}
	m.mu.Lock()
	was, known := m.absent[what]
	m.mu.Unlock()
	if known && time.Now().Before(was.till) {
		return nil, was.err
	}
	found, err := m.RESTMapper.RESTMapping(kind, versions...)
	if meta.IsNoMatchError(err) {
		m.mu.Lock()
		m.absent[what] = absence{err, time.Now().Add(absentFor)}
		m.mu.Unlock()
	}
	return found, err
}
