package windowsimage

import (
	"context"
	"sync"
	"time"

	"github.com/windows-machine-config/wmco/internal/registryclient"
	"github.com/windows-machine-config/wmco/internal/windowsbuild"
)

// Limits of what is remembered.
const (
	maxRemembered = 4096
	remembered    = time.Hour
)

// Memory knows for what images are by the digests of their manifests, whatever tags they have. Content with a digest never changes, so readers
// with different credentials and mirrors can share a memory.
type Memory struct {
	known *registryclient.Recent[string, windowsbuild.Image]

	mu      sync.Mutex
	reading map[string]chan struct{} // closed when it is over
}

// NewMemory makes a memory that knows nothing.
func NewMemory() *Memory {
	return &Memory{known: registryclient.NewRecent[string, windowsbuild.Image](maxRemembered, remembered), reading: map[string]chan struct{}{}}
}

// get returns what is known of a digest, or reads it. Of those who ask for one digest at the same time, one reads.
func (m *Memory) get(ctx context.Context, digest string, read func() (windowsbuild.Image, error)) (windowsbuild.Image, error) {
	for {
		m.mu.Lock()
		is, isKnown := m.known.Get(digest)
		other := m.reading[digest]
		mine := make(chan struct{})
		if !isKnown && other == nil {
			m.reading[digest] = mine
		}
		m.mu.Unlock()
		switch {
		case isKnown:
			return is, nil
		case other == nil:
			is, err := read()
			m.mu.Lock()
			defer m.mu.Unlock()
			if err == nil {
				m.known.Put(digest, is)
			}
			delete(m.reading, digest)
			close(mine)
			return is, err
		}
		select {
		case <-other: // who failed may have had other credentials
		case <-ctx.Done():
			return windowsbuild.Image{}, ctx.Err()
		}
	}
}
