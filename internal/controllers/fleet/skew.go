package fleet

import (
	"slices"
	"sync"
	"time"

	"github.com/windows-machine-config/wmco/internal/rollout"
	"github.com/windows-machine-config/wmco/payload"
)

// Skew says whether our version goes with the API server, which is asked for its own now and then.
type Skew struct {
	server  func() string
	kubelet string

	mu      sync.Mutex
	askedAt time.Time
	why     string
}

// NewSkew compares the kubelet of a payload with the version that server returns, which may be empty where it is not known.
func NewSkew(content payload.Manifest, server func() string) *Skew {
	return &Skew{server: server, kubelet: KubeletVersion(content)}
}

// serverVersionEvery is how often the API server is asked for its version.
const serverVersionEvery = 5 * time.Minute

// Unsupported says why nodes must not have our version; empty when they may.
func (s *Skew) Unsupported() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.askedAt.IsZero() || now.Sub(s.askedAt) > serverVersionEvery {
		s.why, s.askedAt = rollout.Unfit(s.kubelet, s.server()), now
	}
	return s.why
}

// KubeletVersion is the version of the kubelet in a payload, empty where there is none.
func KubeletVersion(content payload.Manifest) string {
	i := slices.IndexFunc(content.Files, func(file payload.File) bool { return file.Component == "kubelet" })
	if i < 0 {
		return ""
	}
	return content.Files[i].Version
}
