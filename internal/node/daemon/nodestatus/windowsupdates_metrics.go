package nodestatus

import (
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

// updateMetrics is what the metrics report of Windows updates.
type updateMetrics struct {
	// pending is nil if it is not known.
	pending             map[string]int64
	installed, searched time.Time
	// isOverdue is known if isConclusive.
	isConclusive, isOverdue bool
}

// setUpdates records what was learned about Windows updates.
func (m *Metrics) setUpdates(u updates) {
	newest, _ := u.report.Newest()
	next := &updateMetrics{installed: newest.Date, searched: u.report.Searched, isConclusive: u.isConclusive, isOverdue: u.reason != ""}
	if counts, isKnown := u.report.Counts(); isKnown {
		next.pending = map[string]int64{}
		for _, class := range windowsupdate.Classes() {
			next.pending[string(class)] = int64(counts[class])
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
	if m.updates.isConclusive {
		b.metric(api.MetricNodeUpdatesOverdue)
		b.sample(api.MetricNodeUpdatesOverdue, numberOf(m.updates.isOverdue))
	}
}
