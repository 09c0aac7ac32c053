package kube

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

type lastNote struct{ text string }

// Eventf implements events.EventRecorder.
func (l *lastNote) Eventf(_, _ runtime.Object, _, _, _, note string, args ...any) {
	l.text = fmt.Sprintf(note, args...)
}

// TestEventsContainNoSecrets expects an event that quotes a registry, a proxy or a program on a host to contain no secrets.
func TestEventsContainNoSecrets(t *testing.T) {
	var last lastNote
	events := NewEvents(&last)
	events.Emit(Event{Object: &corev1.Node{}, Type: corev1.EventTypeWarning, Reason: "X", Action: "Y"},
		"joining: %s", "service kubelet does not start; its log ends with:\ndial http://me:p@hunter2@proxy:3128\nsqlcmd -P hunter2")
	if strings.Contains(last.text, "hunter2") || !strings.HasPrefix(last.text, "joining: service kubelet does not start; its log ends with:\ndial http://***@proxy:3128") {
		t.Errorf("the note is %q", last.text)
	}
}
