package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/desired"
)

// Whoever may write ConfigMaps in the operator's namespace does not say what runs here: only what is signed with the key that the last
// join handed over, or the last settings named, is followed.

// distrustEvery is how often, at most, it is told that something is not followed: whoever writes ConfigMaps must not write events and
// lines of the log without end.
const distrustEvery = 10 * time.Minute

var (
	errNoKey = errors.New("no key of the operator is known here; the operator joins the host again, and hands it over")
	errOlder = errors.New("it is older than what the host has")
)

// verify returns the serial of data that the operator signed for a ConfigMap of this name, in this cluster.
func (l *life) verify(name string, data map[string]string) (serial int64, err error) {
	if l.record.Desired.SigningKey == "" {
		return 0, errNoKey
	}
	is, err := desired.Verify(data, l.record.Desired.SigningKey)
	switch {
	case err != nil:
		return 0, fmt.Errorf("its data are not the operator's: %w", err)
	case is.Name != name:
		return 0, fmt.Errorf("it is signed for ConfigMap %.128q", is.Name)
	case is.Cluster != l.record.Cluster:
		return 0, fmt.Errorf("it is signed for cluster %.64q, want %s", is.Cluster, l.record.Cluster)
	}
	return is.Serial, nil
}

// isOutdated tells whether a serial is lower than one that the host knows of its version.
func (l *life) isOutdated(serial int64) bool { return serial < max(l.record.Serial, l.newest.Load()) }

// distrust tells that a ConfigMap is not followed. The node stays as it is.
func (l *life) distrust(name string, why error) {
	now := time.Now()
	l.mu.Lock()
	told := now.Sub(l.distrusted.since) < distrustEvery
	if !told {
		l.distrusted = trouble{
			service: api.WICDService, reason: api.EventSettingsRefused, since: now,
			message: shortened(fmt.Sprintf("ConfigMap %s is not followed: %v", name, why)),
		}
	}
	l.mu.Unlock()
	if told {
		return
	}
	l.log.Warn("What is published is not followed", "ConfigMap", name, "error", why.Error())
	l.poke()
}

// tellDistrust tells the node of it, by an event: no condition, by which the operator would go, since anybody may be to blame.
func (l *life) tellDistrust(ctx context.Context, client *apiClient, node *corev1.Node) error {
	l.mu.Lock()
	t := l.distrusted
	l.mu.Unlock()
	if t.since.IsZero() {
		return nil
	}
	return l.tellEvents(ctx, client, node, []trouble{t})
}
