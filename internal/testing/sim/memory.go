package sim

import (
	"context"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// ownCommit is what Windows and its own services commit.
const ownCommit = 1 << 30

// Commit implements hostapi.Inventory. The paging file is a quarter of the memory's size.
func (i inventory) Commit(ctx context.Context) (hostapi.Commit, error) {
	w := i.boot.w
	if err := i.boot.lock(ctx); err != nil {
		return hostapi.Commit{}, err
	}
	defer w.mu.Unlock()
	limit := w.options.MemoryBytes / 4 * 5
	return hostapi.Commit{Used: min(ownCommit+w.committed, limit), Limit: limit}, nil
}

// Commit sets how much memory programs have committed.
func (w *Windows) Commit(bytes uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.committed = bytes
}
