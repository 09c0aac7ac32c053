package kube

import (
	"errors"
	"strings"
	"testing"
)

// TestLogsContainNoSecrets expects logs without secrets, even if a host repeats a token, or a server the password it received.
func TestLogsContainNoSecrets(t *testing.T) {
	const token = "eyJhbGciOiJSUzI1NiJ9.eyJqdGkiOiJ0b2tlbi0xIn0.c2lnbmF0dXJl"
	var out strings.Builder
	log := NewLogger(&out, false)
	log.Info("Join failed, will be retried", "reason", "JoinFailed", "error", "service kubelet does not start: "+token)
	log.Info("Join failed, will be retried", "error", errors.New("the host reports "+token))
	log.Error(errors.New("dial http://me:p@hunter2@proxy:3128"), "Connecting to proxy http://me:hunter2@proxy:3128 failed")
	log.V(1).Info("Detail")
	got := out.String()
	if strings.Contains(got, "hunter2") || strings.Contains(got, token) {
		t.Errorf("the log is %s", got)
	}
	for _, want := range []string{`"reason":"JoinFailed"`, "service kubelet does not start: ***", "http://***@proxy:3128"} {
		if !strings.Contains(got, want) {
			t.Errorf("the log lacks %q: %s", want, got)
		}
	}
	if n := strings.Count(got, "\n"); n != 3 {
		t.Errorf("the log has %d lines, want 3", n)
	}
}
