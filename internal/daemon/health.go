package daemon

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/daemon/logrotate"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/host"
)

// health is how the services are, for those who report it.
type health struct {
	// running is true when all of them run.
	running bool
	// troubles are in the order in which services start.
	troubles []trouble
	// calm is when none of them has died for long, if none dies any more.
	calm time.Time
}

// trouble is what a Node is told of a service.
type trouble struct {
	service string
	// reason is one of condition WindowsServicesHealthy, and of the event.
	reason, message string
	since           time.Time
}

// maxMessage bounds a message, in bytes: the note of an event may have 1024 (k8s.io/kubernetes,
// pkg/apis/core/validation/events.go). maxCause bounds what it says before the lines of the log.
const (
	maxMessage = 1000
	maxCause   = 400
)

// judge decides what the Node is told of a service that was found so. o is what stands in its way, if anything does. What
// is told stays the same while the trouble lasts: each change of it would be a write in the cluster.
func (c *career) judge(now time.Time, d host.Disk, s desired.Service, o obstacle) {
	switch {
	case !o.silent:
		c.blocked = time.Time{}
	case c.blocked.IsZero():
		c.blocked = now
	}
	reason, blame, cause := "", s, ""
	switch {
	case c.loops:
		reason = api.ReasonServiceCrashLoop
		cause = fmt.Sprintf("service %s failed %d times within %v, at last: %s", s.Name, len(c.deaths), loopWithin, c.last)
	case o.silent && now.Sub(c.blocked) >= readyPatience:
		reason, blame = api.ReasonServiceNotReady, o.dependency
		cause = fmt.Sprintf("service %s runs and does not work, and service %s waits for it: %v", blame.Name, s.Name, o.err)
	}
	switch {
	case reason == "":
		c.trouble = nil
	case c.trouble == nil || c.trouble.reason != reason:
		c.trouble = &trouble{service: blame.Name, reason: reason, message: message(d, cause, blame.Log.Path), since: now}
	}
}

// message is a cause with the last lines of a log.
func message(d host.Disk, cause, log string) string {
	if len(cause) > maxCause {
		cause = strings.ToValidUTF8(cause[:maxCause], "") + "..."
	}
	cause += "; the log " + log + " ends with:\n"
	return cause + logrotate.Tail(d, log, int64(maxMessage-len(cause)))
}

// conditionOf is what the condition of a Node should become, whose services are so since this life began; is is nil when
// the Node has none yet. change is false when it is to stay as it is.
func conditionOf(now, began time.Time, h health, is *corev1.NodeCondition) (c corev1.NodeCondition, change bool) {
	c = corev1.NodeCondition{
		Type: api.ConditionServicesHealthy, Status: corev1.ConditionTrue, Reason: api.ReasonServicesRunning,
		Message: "all services run", LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now),
	}
	if len(h.troubles) > 0 {
		c.Status, c.Reason = corev1.ConditionFalse, h.troubles[0].reason
		var messages []string
		for _, t := range h.troubles {
			messages = append(messages, t.message)
		}
		c.Message = strings.Join(messages, "\n\n")
	}
	if is != nil && is.Status == c.Status {
		c.LastTransitionTime = is.LastTransitionTime
	}
	recovers := is != nil && is.Status != corev1.ConditionTrue && c.Status == corev1.ConditionTrue
	switch {
	case c.Status == corev1.ConditionTrue && !h.running, recovers && now.Before(later(h.calm, began.Add(loopWithin))):
		return corev1.NodeCondition{}, false
	case is != nil && is.Status == c.Status && is.Reason == c.Reason && is.Message == c.Message:
		return corev1.NodeCondition{}, false
	}
	return c, true
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// tellHealth tells the node how its services are: by a condition, and each new trouble by an event.
func (l *life) tellHealth(ctx context.Context, client *apiClient, node *corev1.Node) error {
	h := l.getHealth()
	if c, change := conditionOf(time.Now(), l.began, h, conditionIn(node, api.ConditionServicesHealthy)); change {
		if err := l.say(ctx, client, node, c); err != nil {
			return err
		}
	}
	return l.tellEvents(ctx, client, node, h.troubles)
}

// say sets a condition of the node.
func (l *life) say(ctx context.Context, client *apiClient, node *corev1.Node, c corev1.NodeCondition) error {
	said, err := client.setCondition(ctx, node.Name, c)
	if err != nil {
		return err
	}
	l.said = said
	l.did("condition %s is %s, %s", c.Type, c.Status, c.Reason)
	return nil
}

// tellEvents makes an event of each trouble, once.
func (l *life) tellEvents(ctx context.Context, client *apiClient, node *corev1.Node, troubles []trouble) error {
	for _, t := range troubles {
		if l.told[t] {
			continue
		}
		if err := client.createEvent(ctx, node, t); err != nil {
			return err
		}
		l.told[t] = true
	}
	return nil
}

// tellRefusal tells the node that an update was undone, and when that is over.
func (l *life) tellRefusal(ctx context.Context, client *apiClient, node *corev1.Node) error {
	no, err := l.refused()
	if err != nil {
		return err
	}
	if c, change := updatedOf(time.Now(), no, l.record.Desired.Version, conditionIn(node, api.ConditionUpdated)); change {
		if err := l.say(ctx, client, node, c); err != nil {
			return err
		}
	}
	if no.Version == "" {
		return nil
	}
	t := trouble{service: api.WICDUpdateService, reason: api.ReasonUpdateFailed, message: no.message(l.record.Desired.Version), since: no.Time}
	return l.tellEvents(ctx, client, node, []trouble{t})
}

// message is bounded as those of troubles.
func (no refusal) message(own string) string {
	return shortened(fmt.Sprintf("version %s does not work here, and the host went back to %s: %s", no.Version, own, no.Reason))
}

// updatedOf is what condition WindowsUpdated of a node of version own should become. It is set when an update was undone,
// and after that only.
func updatedOf(now time.Time, no refusal, own string, is *corev1.NodeCondition) (c corev1.NodeCondition, change bool) {
	c = corev1.NodeCondition{
		Type: api.ConditionUpdated, Status: corev1.ConditionTrue, Reason: api.ReasonUpToDate, Message: "the node has version " + own,
		LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now),
	}
	if no.Version != "" {
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, api.ReasonUpdateFailed, no.message(own)
	}
	if is == nil {
		return c, c.Status == corev1.ConditionFalse
	}
	return c, is.Status != c.Status || c.Status == corev1.ConditionFalse && is.Message != c.Message
}

// isOlder tells whether a node is that of an earlier moment than another one, which may be nil.
func isOlder(node, other *corev1.Node) bool {
	if other == nil || node.UID != other.UID {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(node.ResourceVersion, other.ResourceVersion)
	return err == nil && order < 0
}

// conditionIn is a condition of a node, nil when it has none.
func conditionIn(node *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == kind {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

func (l *life) setHealth(h health) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.health = h
}

func (l *life) getHealth() health {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.health
}
