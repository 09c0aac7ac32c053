package registry

import (
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/internal/mirrors"
	"github.com/windows-machine-config/wmco/internal/registryclient"
)

// remembered is how long what is remembered counts.
const remembered = 10 * time.Minute

// recent is a bounded memory.
type recent[K comparable, V any] = registryclient.Recent[K, V]

func newRecent[K comparable, V any](lasts time.Duration) *recent[K, V] {
	const most = 4096
	return registryclient.NewRecent[K, V](most, lasts)
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
	m.origins.Put(c, o)
	children, _ := m.children.Get(c)
	for _, child := range children {
		m.cameAt(content{c.name, child}, o, depth+1)
	}
}

// knows remembers what belongs to a content.
func (m *memory) knows(c content, children []string, o origin) {
	m.children.Put(c, children)
	m.came(c, o)
}

// route is whom to ask, in order: first who answered before, then those behind it, then those before it, and at last who
// had something else in place of the content.
func (s *serving) route(q request) (mirrors.Route, mirrors.Kind) {
	kind, c := q.kind(), content{q.name, q.reference}
	o, known := s.memory.origins.Get(c)
	isNew := q.part == manifests && q.head // the first request of a pull says by what the image is pulled
	if known && q.isDigest && !isNew {
		kind = o.kind
	}
	route := s.router.Route(q.name, kind)
	var first, then, others, last []mirrors.Attempt
	for _, a := range route.Attempts {
		_, isDamaged := s.memory.damaged.Get(damage{c, a.Name})
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
