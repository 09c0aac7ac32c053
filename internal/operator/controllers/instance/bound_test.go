package instance

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// TestTokenInStatusIsMasked expects the bootstrap token to be masked wherever the host may repeat it: its Node and its facts end up in the status.
func TestTokenInStatusIsMasked(t *testing.T) {
	const token = "the token"
	st := &v1alpha1.WindowsInstanceStatus{Hostname: token, NodeIP: token, OSBuild: token, BootID: token}
	st.Maintenance = &v1alpha1.Maintenance{Message: token, PreviousVersion: token, BootID: token}
	st.Failure = &v1alpha1.Failure{Message: token}
	bound(st, func(text string) string { return strings.ReplaceAll(text, token, "***") })
	if text, err := json.Marshal(st); err != nil || strings.Contains(string(text), token) {
		t.Errorf("the status is %s (%v)", text, err)
	}
}
