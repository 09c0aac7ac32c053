package nodestatus

import (
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

// updateMetrics is what the metrics report of updates of Windows.
type updateMetrics struct {
	// pending is nil if it is not known.
	pending             map[string]int64
	installed, searched time.Time
	isOverdue           bool
}

// setUpdates records a report about updates of Windows; one that was never read removes the metrics.
func (m *Metrics) setUpdates(r windowsupdate.Report, isOverdue bool) {
	var next *updateMetrics
	if !r.Read.IsZero() {
		newest, _ := r.Newest()
		next = &updateMetrics{installed: newest.Date, searched: r.Searched, isOverdue: isOverdue}
		if counts, isKnown := r.Counts(); isKnown {
			next.pending = map[string]int64{}
			for _, class := range windowsupdate.Classes() {
				next.pending[string(class)] = int64(counts[class])
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.updates = next
}

func (m *Metrics) writeUpdates(b *exposition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.updates == nil {
		return
	}
	if m.updates.pending != nil {
		b.counts(api.MetricNodeUpdatesPending, m.updates.pending)
	}
	for _, date := range []struct {
		name string
		at   time.Time
	}{{api.MetricNodeUpdateInstalled, m.updates.installed}, {api.MetricNodeUpdateSearched, m.updates.searched}} {
		if !date.at.IsZero() {
			b.metric(date.name)
			b.sample(date.name, date.at.Unix())
		}
	}
	b.metric(api.MetricNodeUpdatesOverdue)
	b.sample(api.MetricNodeUpdatesOverdue, numberOf(m.updates.isOverdue))
}
