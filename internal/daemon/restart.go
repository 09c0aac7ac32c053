package daemon

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/backoff"
)

// restartEvery is how often it is looked whether Windows waits for a restart. Nobody tells.
const restartEvery = 10 * time.Minute

// awaited is what Windows waits for a restart for.
type awaited struct {
	// known is false until it was looked for the first time.
	known bool
	why   []string
	since time.Time
}

// watchRestart looks whether Windows waits for a restart, and has the node told when that changes.
func (l *life) watchRestart(ctx context.Context) {
	for ctx.Err() == nil {
		why, err := l.host.NextStart.Waits(ctx)
		if err != nil && ctx.Err() == nil {
			l.log.Warn("Windows does not say whether it waits for a restart", "error", err.Error())
		}
		if err == nil && l.setWait(why) {
			l.poke()
		}
		_ = backoff.Sleep(ctx, restartEvery)
	}
}

// setWait tells whether that is new.
func (l *life) setWait(why []string) (changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wait.known && strings.Join(why, "\n") == strings.Join(l.wait.why, "\n") {
		return false
	}
	l.wait = awaited{known: true, why: why, since: time.Now()}
	return true
}

func (l *life) getWait() awaited {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wait
}

// restartOf is what condition WindowsRebootRequired should become; is is nil when the node has none. It is set when Windows
// waits for a restart, and after that only.
func restartOf(now time.Time, w awaited, is *corev1.NodeCondition) (c corev1.NodeCondition, change bool) {
	c = corev1.NodeCondition{
		Type: api.ConditionNodeRebootRequired, Status: corev1.ConditionFalse, Reason: api.ReasonNoRebootPending,
		Message: "Windows does not wait for a restart", LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now),
	}
	if len(w.why) > 0 {
		c.Status, c.Reason = corev1.ConditionTrue, api.ReasonRebootPending
		c.Message = shortened("Windows waits for a restart: " + strings.Join(w.why, "; "))
	}
	if is != nil && is.Status == c.Status {
		c.LastTransitionTime = is.LastTransitionTime
	}
	switch {
	case !w.known:
		return c, false
	case is == nil:
		return c, c.Status == corev1.ConditionTrue
	}
	return c, is.Status != c.Status || is.Message != c.Message
}

// tellRestart tells the node that Windows waits for a restart, by a condition and once, when it begins, by an event.
func (l *life) tellRestart(ctx context.Context, client *apiClient, node *corev1.Node) error {
	w, is := l.getWait(), conditionIn(node, api.ConditionNodeRebootRequired)
	c, change := restartOf(time.Now(), w, is)
	if !change {
		return nil
	}
	begins := c.Status == corev1.ConditionTrue && (is == nil || is.Status != corev1.ConditionTrue)
	if begins { // before the condition, which would say that it was told
		t := trouble{service: "windows", reason: api.EventRebootPending, message: c.Message, since: w.since}
		if err := l.tellEvents(ctx, client, node, []trouble{t}); err != nil {
			return err
		}
	}
	return l.say(ctx, client, node, c)
}

// shortened is a message that an event can have as its note.
func shortened(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage], "")
}
