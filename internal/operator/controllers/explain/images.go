package explain

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/windowsimage"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
	"github.com/windows-machine-config/wmco/internal/shared/proxy"
	"github.com/windows-machine-config/wmco/internal/shared/registryclient"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// Limits of registry lookups.
const (
	maxLookups            = 4
	maxLookupsPerRegistry = 2
	maxQueued             = 256
	// maxImages results are cached: successful ones for resultLifetime, failed ones for failureLifetime.
	maxImages       = 4096
	resultLifetime  = time.Hour
	failureLifetime = 10 * time.Minute
	// maxWait is how long a pod waits for a registry. After that it is explained without the result.
	maxWait = 5 * time.Second
	// accessLifetime is how long the registry access of nodes is cached.
	accessLifetime = 5 * time.Minute
	accessTimeout  = 10 * time.Second
)

// Access returns how nodes reach registries.
type Access func(context.Context) (desired.RegistryAccess, error)

// Ranges returns the known address ranges of the cluster's Services and pods.
type Ranges func(context.Context) []netip.Prefix

type read func(ctx context.Context, image string) (windowsbuild.Image, error)

type answer int

const (
	unknown answer = iota // and no lookup is pending
	pending
	answered
)

// images caches the Windows builds of images. Registries are queried on separate goroutines, once per image.
type images struct {
	read  read
	known *cache.LRUExpireCache // result by image

	mu           sync.Mutex
	pendingSince map[string]time.Time // images with a pending lookup, and since when
	queue        []queuedLookup
	running      map[string]int // lookups by registry
	count        int
}

type queuedLookup struct{ image, registry string }

type result struct {
	image windowsbuild.Image
	ok    bool
}

func newImages(r read) *images {
	return &images{read: r, known: cache.NewLRUExpireCache(maxImages), pendingSince: map[string]time.Time{}, running: map[string]int{}}
}

// get returns what is known of an image. If nothing is known, it queues a lookup.
func (m *images) get(ctx context.Context, image string) (windowsbuild.Image, answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, _ := m.known.Get(image)
	if r, found := value.(result); found {
		if !r.ok {
			return r.image, unknown
		}
		return r.image, answered
	}
	since, found := m.pendingSince[image]
	switch {
	case found && time.Since(since) > maxWait:
		return windowsbuild.Image{}, unknown
	case found:
		return windowsbuild.Image{}, pending
	}
	registry := windowsimage.RegistryOf(image)
	if registry == "" || len(m.queue) >= maxQueued {
		return windowsbuild.Image{}, unknown
	}
	m.pendingSince[image] = time.Now()
	m.queue = append(m.queue, queuedLookup{image, registry})
	m.start(context.WithoutCancel(ctx)) // a lookup outlives the reconcile that requested it, and has its own deadline
	return windowsbuild.Image{}, pending
}

// start starts the queued lookups that the limits allow. The caller holds the lock.
func (m *images) start(ctx context.Context) {
	var left []queuedLookup
	for _, w := range m.queue {
		if m.count >= maxLookups || m.running[w.registry] >= maxLookupsPerRegistry {
			left = append(left, w)
			continue
		}
		m.count++
		m.running[w.registry]++
		go m.lookUp(ctx, w)
	}
	m.queue = left
}

// lookUp queries the registry, caches the result and starts queued lookups.
func (m *images) lookUp(ctx context.Context, w queuedLookup) {
	current, err := m.read(ctx, w.image)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.known.Add(w.image, result{}, failureLifetime)
	} else {
		m.known.Add(w.image, result{current, true}, resultLifetime)
	}
	delete(m.pendingSince, w.image)
	m.count--
	if m.running[w.registry]--; m.running[w.registry] == 0 {
		delete(m.running, w.registry)
	}
	m.start(ctx)
}

// newRead returns a read that works as on nodes but rejects addresses that only the operator's host reaches: users choose the registries.
func newRead(access Access, ranges Ranges) read {
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
		ctx, cancel := context.WithTimeout(ctx, accessTimeout)
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
		until = time.Now().Add(accessLifetime)
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
