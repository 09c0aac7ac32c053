package windowsimage

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// Limits of the memory.
const (
	maxCached     = 4096
	entryLifetime = time.Hour
)

// Memory caches the builds of images by the digests of their manifests, regardless of tags. Content with a digest never changes, so readers with
// different credentials and mirrors can share a memory.
type Memory struct {
	known *cache.LRUExpireCache // windowsbuild.Image by digest

	mu      sync.Mutex
	reading map[string]chan struct{} // closed when the read has ended
}

// NewMemory returns an empty memory.
func NewMemory() *Memory {
	return &Memory{known: cache.NewLRUExpireCache(maxCached), reading: map[string]chan struct{}{}}
}

// get returns the cached value of a digest, or reads it. Of concurrent callers with the same digest, only one reads.
func (m *Memory) get(ctx context.Context, digest string, read func() (windowsbuild.Image, error)) (windowsbuild.Image, error) {
	for {
		m.mu.Lock()
		value, _ := m.known.Get(digest)
		current, isKnown := value.(windowsbuild.Image)
		other := m.reading[digest]
		done := make(chan struct{})
		if !isKnown && other == nil {
			m.reading[digest] = done
		}
		m.mu.Unlock()
		switch {
		case isKnown:
			return current, nil
		case other == nil:
			current, err := read()
			m.mu.Lock()
			defer m.mu.Unlock()
			if err == nil {
				m.known.Add(digest, current, entryLifetime)
			}
			delete(m.reading, digest)
			close(done)
			return current, err
		}
		select {
		case <-other: // if it failed, it may have used other credentials
		case <-ctx.Done():
			return windowsbuild.Image{}, ctx.Err()
		}
	}
}
