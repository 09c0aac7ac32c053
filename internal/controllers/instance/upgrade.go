package instance

import (
	"context"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/join"
	"github.com/windows-machine-config/wmco/internal/kube"
)

// upgrade tells the node its version: WICD does the rest. A node of another operator has no WICD of ours, and one that knows another
// key than ours would not follow: these are joined.
func (m *maintenance) upgrade(ctx context.Context) error {
	follows := kube.Condition(m.view.Instance, api.ConditionConfigured).Reason != api.ReasonAdoptionPending
	if follows && m.current().PreviousVersion != "" {
		var err error
		if follows, err = m.Store.KnowsKey(ctx, m.current().PreviousVersion); err != nil {
			return err
		}
	}
	if follows {
		return m.announceVersion(ctx, m.current().Version)
	}
	m.view.drained = true
	return m.joinAgain(ctx)
}

// joinAgain joins the host, and keeps what came of it.
func (m *maintenance) joinAgain(ctx context.Context) error {
	err := m.join(ctx, m.view, m.status)
	join.Report(m.status.desired(), m.view.Instance.Generation, true, err)
	return err
}
