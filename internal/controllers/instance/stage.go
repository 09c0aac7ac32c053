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
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/join"
	"github.com/windows-machine-config/wmco/internal/kube"
)

// stagingHosts is how many hosts are sent another version at the same time, behind what the others do.
const stagingHosts = 4

// stage sends the content of the version to a host that goes on with the one it has.
func (m *maintenance) stage(ctx context.Context) (time.Duration, error) {
	if left := m.retries.Remaining(m.id()); left > 0 {
		return left, nil
	}
	err := m.sendContent(ctx)
	m.reached(err)
	if err != nil {
		if after, waits := join.Retry(err); waits {
			return after, nil
		}
		m.Events.Emit(kube.Event{Object: m.view.Instance, Type: corev1.EventTypeWarning, Reason: api.EventMaintenanceFailed, Action: "Stage"},
			"sending version %s failed, and is tried again: %v", m.view.Version, err)
		return m.retries.Fail(m.id(), time.Now()), nil
	}
	m.retries.Reset(m.id())
	m.status.desired().Payload.Staged = desired.ShortDigest(m.view.release.Content.Digest)
	return 0, nil
}

// sendContent sends it, no faster than all hosts together may be sent another version.
func (m *maintenance) sendContent(ctx context.Context) error {
	allowed, err := resource.ParseQuantity(cmp.Or(m.view.config.Rollout.StagingBandwidth, "50Mi"))
	if err != nil {
		return fmt.Errorf("rollout.stagingBandwidth: %w", err) // the API server lets none in
	}
	m.bandwidth.SetLimit(rate.Limit(allowed.AsApproximateFloat64()))
	return m.visit("sending content").Stage(ctx, join.Transfer{Slots: stagingSlots{&m.staging}, Pace: m.bandwidth})
}

// stagingSlots are the slots of hosts that are sent another version.
type stagingSlots struct{ *kube.Slots }

// Take takes one of them.
func (s stagingSlots) Take() (io.Closer, error) {
	slot, ok := s.Slots.Take(stagingHosts)
	if !ok {
		return nil, join.ErrNoSlot
	}
	return slot, nil
}

// visit is what takes the operator to a host that has joined.
func (m *maintenance) visit(doing string) *join.Visit {
	a := &attempt{Controller: m.Controller, view: m.view, status: m.status}
	content := desired.Content(m.view.release.Content, m.view.config.Network.Provider)
	if known, isKnown := m.Renderer.Cluster.Get(m.view.config); isKnown { // else what hosts on every platform get is sent
		content = desired.OnPlatform(content, known.Network.Platform)
	}
	return &join.Visit{
		Host: a, Payload: m.Payload, Content: content,
		Observer: visitObserver{a, doing}, Now: time.Now,
	}
}

// visitObserver keeps how a visit goes in what is said of the maintenance.
type visitObserver struct {
	*attempt
	doing string
}

// Progress implements join.Observer.
func (o visitObserver) Progress(p join.Progress) {
	if m := o.status.desired().Maintenance; m != nil && p.Message != "" {
		m.Message = o.doing + ": " + p.Message
	}
}
