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
	"github.com/windows-machine-config/wmco/internal/controllers/settings"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/join"
	"github.com/windows-machine-config/wmco/internal/kube"
)

// keyPatience is how long a host may refuse the key before its Machine is replaced: WICD may have to restart, the cluster to come
// back.
const keyPatience = time.Hour

// ReplaceReason says why the Machine of a host is to be replaced; empty when it is not, or when the user does not want it.
func ReplaceReason(i *v1alpha1.WindowsInstance, allowed v1alpha1.MachineReplacement) string {
	if i.Labels[api.LabelSource] != api.SourceMachine || i.Status.NodeRef == nil || allowed == v1alpha1.ReplaceNever {
		return ""
	}
	reachable := kube.Condition(i, api.ConditionReachable)
	if reachable.Reason == api.ReasonAuthenticationFailed && time.Since(reachable.LastTransitionTime.Time) > keyPatience {
		return "its host has not let in the SSH key for " + keyPatience.String()
	}
	if f := i.Status.Failure; allowed == v1alpha1.ReplaceWhenBroken && f != nil && f.Action == v1alpha1.ActionRepair && f.Attempts >= join.MaxRepairs {
		return "its node could not be repaired: " + f.Message
	}
	return ""
}

// ContentOf says whether the host of an instance had come to the content with a digest, or to another and not to that since. Its Node may be
// gone. Neither holds for a host that never came to any.
func ContentOf(i *v1alpha1.WindowsInstance, digest string) (arrived, former bool) {
	had := i.Status.Payload.Current
	arrived = had == desired.ShortDigest(digest)
	return arrived, had != "" && !arrived
}

// costs remembers what going from one version to another disrupts. It is asked for every host with each plan.
type costs struct {
	mu    sync.Mutex
	known map[[2]string]v1alpha1.PlanDisruption
}

// of is the disruption of a node that comes from a version to another one, which is published: a drain where the one it has is
// published no more, or by somebody else, or the two cannot be compared.
func (c *costs) of(ctx context.Context, in *settings.Store, from string, is *corev1.ConfigMap) v1alpha1.PlanDisruption {
	c.mu.Lock()
	defer c.mu.Unlock()
	was, err := in.Cached(ctx, from)
	if err != nil {
		return v1alpha1.DisruptionDrain
	}
	of := func(cm *corev1.ConfigMap) string { return string(cm.UID) + cm.ResourceVersion }
	key := [2]string{of(was), of(is)}
	if d, known := c.known[key]; known {
		return d
	}
	private, err := in.SigningKey(ctx)
	if err != nil {
		return v1alpha1.DisruptionDrain
	}
	d := compareVersions(was, is, private)
	if c.known == nil || len(c.known) > 100 {
		c.known = map[[2]string]v1alpha1.PlanDisruption{}
	}
	c.known[key] = d
	return d
}

// compareVersions says what it takes to make one of the other. What differs between nodes is the same in both.
func compareVersions(was, is *corev1.ConfigMap, private ed25519.PrivateKey) v1alpha1.PlanDisruption {
	for _, cm := range []*corev1.ConfigMap{was, is} {
		if _, err := settings.SignedWith(private, cm); err != nil {
			return v1alpha1.DisruptionDrain
		}
	}
	old, err1 := desired.FromData(was.Data)
	wanted, err2 := desired.FromData(is.Data)
	if errors.Join(err1, err2) != nil {
		return v1alpha1.DisruptionDrain
	}
	switch desired.Diff(old, wanted).Disruption {
	case desired.None:
		return v1alpha1.DisruptionNone
	case desired.Restart:
		return v1alpha1.DisruptionRestart
	case desired.Drain:
		return v1alpha1.DisruptionDrain
	}
	return v1alpha1.DisruptionReboot
}

// estimate says when the first node went to the version, and when the last one will have come if the rest are as fast. While no node goes, what
// was said last stands, until its time has come.
func estimate(s fleetSeen, sum v1alpha1.RolloutStatus) (started, end *metav1.Time) {
	if before := s.config.Status.Rollout; before != nil && before.Version == sum.Version {
		started = before.StartedAt
		if before.EstimatedEnd != nil && before.EstimatedEnd.After(s.Now) {
			end = before.EstimatedEnd
		}
	}
	isUnderWay := false
	var came []time.Time
	for i := range s.Hosts {
		h := &s.Hosts[i]
		if h.Node != nil && h.Node.Version == sum.Version && !h.Since.IsZero() {
			came = append(came, h.Since)
		}
		if goes := h.UnderWay; goes != nil && goes.Action == v1alpha1.ActionUpgrade {
			isUnderWay = true
			if started == nil || goes.StartedAt.Before(started) {
				started = &goes.StartedAt
			}
		}
	}
	left := int(sum.Nodes) - len(came)
	if started == nil {
		return nil, nil
	}
	came = slices.DeleteFunc(came, func(at time.Time) bool { return at.Before(started.Time) }) // those that were there before say nothing
	switch {
	case left <= 0:
		return started, nil
	case !isUnderWay:
		return started, end
	case len(came) < 2:
		return started, nil
	}
	each := s.Now.Sub(started.Time) / time.Duration(len(came))
	at := metav1.NewTime(s.Now.Add(each * time.Duration(left)).Truncate(time.Minute))
	return started, &at
}
