package fleet

import (
	"context"
	"crypto/ed25519"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/settings"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// keyTimeout is how long a host may reject the key before its Machine is replaced: WICD may have to restart first, or the cluster to recover.
const keyTimeout = time.Hour

// ReplaceReason returns why the Machine of a host must be replaced; empty if it need not be, or the user does not allow it.
func ReplaceReason(i *v1alpha1.WindowsInstance, allowed v1alpha1.MachineReplacement) string {
	if i.Labels[api.LabelSource] != api.SourceMachine || i.Status.NodeRef == nil || allowed == v1alpha1.ReplaceNever {
		return ""
	}
	reachable := kube.Condition(i, api.ConditionReachable)
	if reachable.Reason == api.ReasonAuthenticationFailed && time.Since(reachable.LastTransitionTime.Time) > keyTimeout {
		return "its host has rejected the SSH key for " + keyTimeout.String()
	}
	if f := i.Status.Failure; allowed == v1alpha1.ReplaceWhenBroken && f != nil && f.Action == v1alpha1.ActionRepair && f.Attempts >= join.MaxRepairs {
		return "its node could not be repaired: " + f.Message
	}
	return ""
}

// ContentOf reports whether the host of an instance last got the content with a digest, or other content. Its Node may be gone. Both are false for a
// host that never got any.
func ContentOf(i *v1alpha1.WindowsInstance, digest string) (arrived, former bool) {
	previous := i.Status.Payload.Current
	arrived = previous == desired.ShortDigest(digest)
	return arrived, previous != "" && !arrived
}

// costs caches the disruption of going from one version to another. It is queried for every host in each plan.
type costs struct {
	mu    sync.Mutex
	known map[[2]string]v1alpha1.PlanDisruption
}

// of returns the disruption of a node that goes from a version to a published one. It is a drain if the node's version is no longer published, was
// published by another signer, or cannot be compared.
func (c *costs) of(ctx context.Context, in *settings.Store, from string, current *corev1.ConfigMap) v1alpha1.PlanDisruption {
	c.mu.Lock()
	defer c.mu.Unlock()
	previous, err := in.Cached(ctx, from)
	if err != nil {
		return v1alpha1.DisruptionDrain
	}
	of := func(cm *corev1.ConfigMap) string { return string(cm.UID) + cm.ResourceVersion }
	key := [2]string{of(previous), of(current)}
	if d, known := c.known[key]; known {
		return d
	}
	private, err := in.SigningKey(ctx)
	if err != nil {
		return v1alpha1.DisruptionDrain
	}
	d := compareVersions(previous, current, private)
	if c.known == nil || len(c.known) > 100 {
		c.known = map[[2]string]v1alpha1.PlanDisruption{}
	}
	c.known[key] = d
	return d
}

// compareVersions returns the disruption of going from one version to the other. Settings that differ between nodes are the same in both.
func compareVersions(previous, current *corev1.ConfigMap, private ed25519.PrivateKey) v1alpha1.PlanDisruption {
	for _, cm := range []*corev1.ConfigMap{previous, current} {
		if _, err := settings.SignedWith(private, cm); err != nil {
			return v1alpha1.DisruptionDrain
		}
	}
	old, err1 := desired.FromData(previous.Data)
	wanted, err2 := desired.FromData(current.Data)
	if errors.Join(err1, err2) != nil {
		return v1alpha1.DisruptionDrain
	}
	return desired.DisruptionOf(old, wanted)
}

// estimate returns when the first node went to the version, and when the last one will have arrived at the average rate so far. While no node is
// being upgraded, the previous estimate stays until its time has passed.
func estimate(s fleetSeen, sum v1alpha1.RolloutStatus) (started, end *metav1.Time) {
	if before := s.config.Status.Rollout; before != nil && before.Version == sum.Version {
		started = before.StartedAt
		if before.EstimatedEnd != nil && before.EstimatedEnd.After(s.Now) {
			end = before.EstimatedEnd
		}
	}
	upgrading := false
	var arrivals []time.Time
	for i := range s.Hosts {
		h := &s.Hosts[i]
		if h.Node != nil && h.Node.Version == sum.Version && !h.Since.IsZero() {
			arrivals = append(arrivals, h.Since)
		}
		if maintenance := h.Maintenance; maintenance != nil && maintenance.Action == v1alpha1.ActionUpgrade {
			upgrading = true
			if started == nil || maintenance.StartedAt.Before(started) {
				started = &maintenance.StartedAt
			}
		}
	}
	remaining := int(sum.Nodes) - len(arrivals)
	if started == nil {
		return nil, nil
	}
	arrivals = slices.DeleteFunc(arrivals, func(at time.Time) bool { return at.Before(started.Time) }) // earlier arrivals do not count
	switch {
	case remaining <= 0:
		return started, nil
	case !upgrading:
		return started, end
	case len(arrivals) < 2:
		return started, nil
	}
	each := s.Now.Sub(started.Time) / time.Duration(len(arrivals))
	at := metav1.NewTime(s.Now.Add(each * time.Duration(remaining)).Truncate(time.Minute))
	return started, &at
}
