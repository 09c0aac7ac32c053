package explain

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/mirrors"
	"github.com/windows-machine-config/wmco/internal/proxy"
	"github.com/windows-machine-config/wmco/internal/registryclient"
	"github.com/windows-machine-config/wmco/internal/windowsbuild"
	"github.com/windows-machine-config/wmco/internal/windowsimage"
)

// Limits of what registries are asked.
const (
	maxLookups  = 4
	perRegistry = 2
	maxQueued   = 256
	// maxImages are remembered, each for an hour; what a registry did not tell, for ten minutes.
	maxImages    = 4096
	rememberedOK = time.Hour
	remembered   = 10 * time.Minute
	// waitFor is how long a pod waits for a registry. Then it is told what is known without it.
	waitFor = 5 * time.Second
	// accessFor is how long it counts how nodes reach registries.
	accessFor    = 5 * time.Minute
	accessWithin = 10 * time.Second
)

// Access says how nodes reach registries.
type Access func(context.Context) (desired.RegistryAccess, error)

// Ranges are those of the cluster's Services and pods, as far as they are known.
type Ranges func(context.Context) []netip.Prefix

// read asks for one image.
type read func(ctx context.Context, image string) (windowsbuild.Image, error)

// answer says what is known of an image.
type answer int

const (
	unknown answer = iota // and nobody is asked
	pending
	answered
)

// images knows for which builds images are. Registries are asked on goroutines of their own, for each image once.
type images struct {
	read  read
	known *registryclient.Recent[string, result]

	mu      sync.Mutex
	asked   map[string]time.Time // images that wait or are asked for
	queue   []waiting
	running map[string]int // lookups by registry
	count   int
}

// waiting is an image whose registry is still to be asked.
type waiting struct{ image, registry string }

type result struct {
	is windowsbuild.Image
	ok bool
}

func newImages(r read) *images {
	return &images{read: r, known: registryclient.NewRecent[string, result](maxImages, rememberedOK), asked: map[string]time.Time{}, running: map[string]int{}}
}

// get is what is known of an image, and has its registry asked where that is nothing.
func (m *images) get(ctx context.Context, image string) (windowsbuild.Image, answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, is := m.known.Get(image); is {
		if !r.ok {
			return r.is, unknown
		}
		return r.is, answered
	}
	since, is := m.asked[image]
	switch {
	case is && time.Since(since) > waitFor:
		return windowsbuild.Image{}, unknown
	case is:
		return windowsbuild.Image{}, pending
	}
	registry := windowsimage.RegistryOf(image)
	if registry == "" || len(m.queue) >= maxQueued {
		return windowsbuild.Image{}, unknown
	}
	m.asked[image] = time.Now()
	m.queue = append(m.queue, waiting{image, registry})
	m.start(context.WithoutCancel(ctx)) // a lookup outlives the reconcile that asked for it, and has its own deadline
	return windowsbuild.Image{}, pending
}

// start asks for images whose registry is not asked too much already. The lock is held.
func (m *images) start(ctx context.Context) {
	var left []waiting
	for _, w := range m.queue {
		if m.count >= maxLookups || m.running[w.registry] >= perRegistry {
			left = append(left, w)
			continue
		}
		m.count++
		m.running[w.registry]++
		go m.lookUp(ctx, w)
	}
	m.queue = left
}

// lookUp asks, remembers, and starts what waits.
func (m *images) lookUp(ctx context.Context, w waiting) {
	is, err := m.read(ctx, w.image)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.known.PutFor(w.image, result{}, remembered)
	} else {
		m.known.Put(w.image, result{is, true})
	}
	delete(m.asked, w.image)
	m.count--
	if m.running[w.registry]--; m.running[w.registry] == 0 {
		delete(m.running, w.registry)
	}
	m.start(ctx)
}

// readers reads as nodes do, and keeps away from addresses that only the operator's machine reaches: users name the registries.
func readers(access Access, ranges Ranges) read {
	var (
		mu     sync.Mutex
		until  time.Time
		reader *windowsimage.Reader
		memory = windowsimage.NewMemory()
	)
	current := func(ctx context.Context) (*windowsimage.Reader, error) {
		mu.Lock()
		defer mu.Unlock()
		if time.Now().Before(until) {
			return reader, nil
		}
		ctx, cancel := context.WithTimeout(ctx, accessWithin)
		defer cancel()
		a, err := access(ctx)
		if err != nil {
			return nil, err
		}
		table := mirrors.Table{}
		if a.Mirrors != nil {
			table = *a.Mirrors
		}
		if reader != nil {
			reader.Close()
		}
		guard := windowsimage.Guard{Ranges: ranges(ctx), Own: net.InterfaceAddrs, Lookup: net.DefaultResolver.LookupNetIP, Proxies: proxy.Hosts(a.Proxy)}
		reader = windowsimage.New(registryclient.New(registryclient.Options{
			Agent: api.ManagedBy, Keyring: a.PullSecret, PasswordFirst: true, Proxy: a.Proxy, Certificates: a.Certificates, Dial: guard.Dial(), Check: guard.Check,
		}), table, memory)
		until = time.Now().Add(accessFor)
		return reader, nil
	}
	return func(ctx context.Context, image string) (windowsbuild.Image, error) {
		r, err := current(ctx)
		if err != nil {
			return windowsbuild.Image{}, err
		}
		return r.Read(ctx, image)
	}
}
