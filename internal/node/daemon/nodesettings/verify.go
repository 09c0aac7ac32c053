package nodesettings

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/nodestatus"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// Permission to write ConfigMaps in the operator's namespace is not enough to decide what runs here: only what is signed with the key that the last
// join transferred, or that the last settings named, is applied.

var (
	errNoKey = errors.New("the host has no signing key of the operator; the operator joins the host again and transfers the key")
	errOlder = errors.New("it is older than the settings that the host has")
)

// Verifier accepts only what the operator signed.
type Verifier struct {
	state.Session
	refusal *nodestatus.Refusal

	mu sync.Mutex
	// newest is the highest serial seen with the host's current settings.
	newest int64
}

// NewVerifier returns a Verifier, which sends wake when there is something to report.
func NewVerifier(s state.Session, wake state.Signal) *Verifier {
	return &Verifier{Session: s, refusal: nodestatus.NewRefusal(api.EventSettingsRefused, wake)}
}

// Verify returns the serial of data that the operator signed for a ConfigMap of this name, in this cluster.
func (v *Verifier) Verify(name string, data map[string]string) (serial int64, err error) {
	if v.Record.Desired.SigningKey == "" {
		return 0, errNoKey
	}
	current, err := desired.Verify(data, v.Record.Desired.SigningKey)
	switch {
	case err != nil:
		return 0, fmt.Errorf("its data is not from the operator: %w", err)
	case current.Name != name:
		return 0, fmt.Errorf("it is signed for ConfigMap %.128q", current.Name)
	case current.Cluster != v.Record.Cluster:
		return 0, fmt.Errorf("it is signed for cluster %.64q, want %s", current.Cluster, v.Record.Cluster)
	}
	return current.Serial, nil
}

// isOutdated reports whether a serial is lower than one that the host knows for its version.
func (v *Verifier) isOutdated(serial int64) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return serial < max(v.Record.Serial, v.newest)
}

// remember stores a serial seen with the host's current settings.
func (v *Verifier) remember(serial int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.newest = max(serial, v.newest)
}

// Refuse reports that a ConfigMap was rejected. The node keeps its settings.
func (v *Verifier) Refuse(name string, reason error) {
	if v.refusal.Report(fmt.Sprintf("ConfigMap %s was rejected: %v", name, reason)) {
		v.Log.Warn("Published settings rejected", "ConfigMap", name, "error", reason.Error())
	}
}

// ReportTo reports refusals to the Node.
func (v *Verifier) ReportTo(ctx context.Context, w *nodestatus.Writer, node *corev1.Node) error {
	return v.refusal.ReportTo(ctx, w, node)
}
