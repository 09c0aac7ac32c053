package registry

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
)

// Limits of memories: how many facts each holds, and how long they are valid.
const (
	maxRemembered = 4096
	remembered    = 10 * time.Minute
)

// content is a digest in a repository, as in the image's name.
type content struct {
	name   mirrors.Name
	digest string
}

// origin is how containerd requested a content: the kind of image reference, and the registry that had it. The parts of an image are
// requested from the registry of the image, as on Linux nodes.
type origin struct {
	kind mirrors.Kind
	from mirrors.Name
}

// memory records where contents come from, and which registries had other content instead.
type memory struct {
	origins  *cache.LRUExpireCache // origin by content
	children *cache.LRUExpireCache // digests, a []string, by content
	damaged  *cache.LRUExpireCache // keys are of type damage
}

// damage is a content that is damaged at a registry.
type damage struct {
	content content
	from    mirrors.Name
}

func newMemory() *memory {
	return &memory{
		origins:  cache.NewLRUExpireCache(maxRemembered),
		children: cache.NewLRUExpireCache(maxRemembered),
		damaged:  cache.NewLRUExpireCache(maxRemembered),
	}
}

// maxDepth is the maximum nesting of images: an index, the manifest of a platform, its layers.
const maxDepth = 4

// remember records where a content and its parts came from, down to a depth.
func (m *memory) remember(c content, o origin, depth int) {
	if depth == 0 {
		return
	}
	m.origins.Add(c, o, remembered)
	value, _ := m.children.Get(c)
	children, _ := value.([]string)
	for _, child := range children {
		m.remember(content{c.name, child}, o, depth-1)
	}
}

// route returns the registries to query, in order: first the one that had the content before, then those after it, then those before it,
// and finally those that had other content instead.
func (s *requestHandler) route(q request) (mirrors.Route, mirrors.Kind) {
	kind, c := q.kind(), content{q.name, q.reference}
	value, known := s.memory.origins.Get(c)
	o, _ := value.(origin)
	isNew := q.part == manifests && q.head // the first request of a pull determines the kind of reference
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

// failedRequest identifies a request.
type failedRequest struct {
	name            mirrors.Name
	part, reference string
}

// failureLasts is how long the message of a HEAD request is kept for the GET.
const failureLasts = 5 * time.Second
