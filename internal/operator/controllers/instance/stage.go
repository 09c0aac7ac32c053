package instance

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// stagingHosts is the number of hosts to which another version is sent concurrently, in the background.
const stagingHosts = 4

// stage sends the content of the version to a host that keeps its current version for now.
func (m *maintenance) stage(ctx context.Context) (time.Duration, error) {
	if remaining := m.retries.Remaining(m.id()); remaining > 0 {
		return remaining, nil
	}
	err := m.sendContent(ctx)
	m.recordReachable(err)
	if err != nil {
		if after, waits := join.Retry(err); waits {
			return after, nil
		}
		m.Events.Emit(kube.Event{Object: m.view.Instance, Type: corev1.EventTypeWarning, Reason: api.EventMaintenanceFailed, Action: "Stage"},
			"sending version %s failed, will be retried: %v", m.view.Version, err)
		return m.retries.Fail(m.id(), time.Now()), nil
	}
	m.retries.Reset(m.id())
	m.status.want().Payload.Staged = desired.ShortDigest(m.view.release.Content.Digest)
	return 0, nil
}

// sendContent sends the content, limited by the staging bandwidth that all hosts share.
func (m *maintenance) sendContent(ctx context.Context) error {
	allowed, err := resource.ParseQuantity(cmp.Or(m.view.config.Rollout.StagingBandwidth, "50Mi"))
	if err != nil {
		return fmt.Errorf("rollout.stagingBandwidth: %w", err) // the API server rejects such a value
	}
	m.bandwidth.SetLimit(rate.Limit(allowed.AsApproximateFloat64()))
	return m.visit("sending content").Stage(ctx, join.Transfer{TakeSlot: m.takeStagingSlot, Pace: m.bandwidth})
}

func (m *maintenance) takeStagingSlot() (io.Closer, error) {
	slot, ok := m.staging.Take(stagingHosts)
	if !ok {
		return nil, join.ErrNoSlot
	}
	return slot, nil
}

// visit returns a visit to a host that has joined.
func (m *maintenance) visit(doing string) *join.Visit {
	a := &attempt{Controller: m.Controller, view: m.view, status: m.status}
	content := desired.Content(m.view.release.Content, m.view.config.Network.Provider)
	if known, isKnown := m.Renderer.Cluster.Get(m.view.config); isKnown { // otherwise, the files for other platforms are sent, too
		content = desired.OnPlatform(content, known.Network.Platform)
	}
	return &join.Visit{
		Host: a, Payload: m.Payload, Content: content,
		Observer: visitObserver{a, doing}, Now: time.Now,
	}
}

// visitObserver records the progress of a visit in the message of the maintenance.
type visitObserver struct {
	*attempt
	doing string
}

// Progress implements join.Observer.
func (o visitObserver) Progress(p join.Progress) {
	if m := o.status.want().Maintenance; m != nil && p.Message != "" {
		m.Message = o.doing + ": " + p.Message
	}
}
