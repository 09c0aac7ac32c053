package windowsimage

import (
	"context"
	"sync"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/registryclient"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// Limits of the memory.
const (
	maxRemembered = 4096
	remembered    = time.Hour
)

// Memory caches the builds of images by the digests of their manifests, regardless of tags. Content with a digest never changes, so readers with
// different credentials and mirrors can share a memory.
type Memory struct {
	known *registryclient.Recent[string, windowsbuild.Image]

	mu      sync.Mutex
	reading map[string]chan struct{} // closed when the read has ended
}

// NewMemory returns an empty memory.
func NewMemory() *Memory {
	return &Memory{known: registryclient.NewRecent[string, windowsbuild.Image](maxRemembered, remembered), reading: map[string]chan struct{}{}}
}

// get returns the cached value of a digest, or reads it. Of concurrent callers with the same digest, only one reads.
func (m *Memory) get(ctx context.Context, digest string, read func() (windowsbuild.Image, error)) (windowsbuild.Image, error) {
	for {
		m.mu.Lock()
		current, isKnown := m.known.Get(digest)
		other := m.reading[digest]
		mine := make(chan struct{})
		if !isKnown && other == nil {
			m.reading[digest] = mine
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
				m.known.Put(digest, current)
			}
			delete(m.reading, digest)
			close(mine)
			return current, err
		}
		select {
		case <-other: // if it failed, it may have used other credentials
		case <-ctx.Done():
			return windowsbuild.Image{}, ctx.Err()
		}
	}
}
