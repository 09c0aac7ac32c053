package registry

import (
	"slices"
	"sync"
	"time"

	"github.com/windows-machine-config/wmco/internal/mirrors"
)

// maxRemembered bounds each kind of thing that is remembered, remembered is how long it counts.
const (
	maxRemembered = 4096
	remembered    = 10 * time.Minute
)

// recent is a bounded memory. When it is full, all of it is forgotten: it only saves requests.
type recent[K comparable, V any] struct {
	mu    sync.Mutex
	all   map[K]kept[V]
	lasts time.Duration
}

type kept[V any] struct {
	value V
	until time.Time
}

func newRecent[K comparable, V any](lasts time.Duration) *recent[K, V] {
	return &recent[K, V]{all: map[K]kept[V]{}, lasts: lasts}
}

func (r *recent[K, V]) get(key K) (value V, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k, ok := r.all[key]
	if !ok || time.Now().After(k.until) {
		return value, false
	}
	return k.value, true
}

func (r *recent[K, V]) put(key K, value V) { r.putFor(key, value, r.lasts) }

func (r *recent[K, V]) putFor(key K, value V, lasts time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) >= maxRemembered {
		clear(r.all)
	}
	r.all[key] = kept[V]{value, time.Now().Add(lasts)}
}

func (r *recent[K, V]) drop(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, key)
}

// content is a digest in a repository, as the image's name has it.
type content struct {
	name   mirrors.Name
	digest string
}

// origin is how containerd came to ask for a content: by which kind of reference of an image, and who answered. What
// belongs to an image is asked for where the image came from, as Linux nodes do.
type origin struct {
	kind mirrors.Kind
	from mirrors.Name
}

// memory remembers where contents come from, and who had something else in their place.
type memory struct {
	origins  *recent[content, origin]
	children *recent[content, []string]
	damaged  *recent[damage, bool]
}

// damage is a content that a place has damaged.
type damage struct {
	content content
	from    mirrors.Name
}

func newMemory() *memory {
	return &memory{
		origins:  newRecent[content, origin](remembered),
		children: newRecent[content, []string](remembered),
		damaged:  newRecent[damage, bool](remembered),
	}
}

// maxDepth is how deep images are nested: an index, the manifest of a platform, its layers.
const maxDepth = 4

// came remembers where a content came from, and so where what belongs to it does.
func (m *memory) came(c content, o origin) { m.cameAt(c, o, 0) }

func (m *memory) cameAt(c content, o origin, depth int) {
	if depth == maxDepth {
		return
	}
	m.origins.put(c, o)
	children, _ := m.children.get(c)
	for _, child := range children {
		m.cameAt(content{c.name, child}, o, depth+1)
	}
}

// knows remembers what belongs to a content.
func (m *memory) knows(c content, children []string, o origin) {
	m.children.put(c, children)
	m.came(c, o)
}

// route is whom to ask, in order: first who answered before, then those behind it, then those before it, and at last who
// had something else in place of the content.
func (s *serving) route(q request) (mirrors.Route, mirrors.Kind) {
	kind, c := q.kind(), content{q.name, q.reference}
	o, known := s.memory.origins.get(c)
	isNew := q.part == manifests && q.head // the first request of a pull says by what the image is pulled
	if known && q.isDigest && !isNew {
		kind = o.kind
	}
	route := s.router.Route(q.name, kind)
	var first, then, others, last []mirrors.Attempt
	for _, a := range route.Attempts {
		_, isDamaged := s.memory.damaged.get(damage{c, a.Name})
		switch {
		case isDamaged:
			last = append(last, a)
		case known && !isNew && a.Name == o.from && len(first) == 0:
			first = append(first, a)
		case len(first) > 0:
			then = append(then, a)
		default:
			others = append(others, a)
		}
	}
	route.Attempts = slices.Concat(first, then, others, last)
	return route, kind
}

// failures are the messages of failed requests, which containerd asks for again with GET: HEAD has no room for them.
type failures struct{ *recent[failedRequest, string] }

// failedRequest is what was asked for.
type failedRequest struct {
	name            mirrors.Name
	part, reference string
}

// failureLasts is how long an answer without room may wait for the request with room.
const failureLasts = 5 * time.Second

func newFailures() *failures {
	return &failures{newRecent[failedRequest, string](failureLasts)}
}
