package instance

import (
	"context"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
)

// upgrade announces the version to the node; WICD installs it. A node of another operator has no managed WICD, and a node that does not know the
// current signing key would ignore the announcement: their hosts are joined.
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
	return m.repeatJoin(ctx)
}

func (m *maintenance) repeatJoin(ctx context.Context) error {
	err := m.join(ctx, m.view, m.status)
	join.Report(m.status.want(), m.view.Instance.Generation, true, err)
	return err
}
