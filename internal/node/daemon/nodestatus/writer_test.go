package nodestatus

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/internal/node/daemon/apiclient"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/identity"
	"github.com/windows-machine-config/wmco/internal/node/kubeapi"
	"github.com/windows-machine-config/wmco/internal/shared/mask"
)

// TestConditionsContainNoSecrets: output of the host's programs becomes a condition, which everyone who may read Nodes can see. A condition that
// differs only in what is masked is not rewritten each time.
func TestConditionsContainNoSecrets(t *testing.T) {
	w, bodies := newWriter(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1"}}
	c := corev1.NodeCondition{Type: "WindowsDefenderInterference", Status: corev1.ConditionTrue, Reason: "X", Message: "net user evil hunter2 /add failed"}
	for range 2 {
		if err := w.SetCondition(t.Context(), node, c); err != nil {
			t.Fatal(err)
		}
		notified := c
		notified.Message = "net user evil *** /add failed"
		node.Status.Conditions = []corev1.NodeCondition{notified}
	}
	if got := *bodies; len(got) != 1 || strings.Contains(got[0], "hunter2") || !strings.Contains(got[0], "net user evil *** /add failed") {
		t.Errorf("output: %q", got)
	}
}

// newWriter returns a Writer, and the bodies of its requests.
func newWriter(t *testing.T) (w *Writer, bodies *[]string) {
	bodies = &[]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		*bodies = append(*bodies, string(body))
		_, _ = io.WriteString(w, `{"kind":"Node","apiVersion":"v1"}`)
	}))
	t.Cleanup(server.Close)
	client, err := kubeapi.New(kubeapi.Options{Server: identity.Server{Address: server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	return &Writer{
		Session: state.Session{Host: hostapi.Host{Disk: hostapi.Disk{Root: t.TempDir()}}, Log: slog.New(slog.DiscardHandler)},
		client:  &apiclient.Client{Client: client},
		memory:  &written{events: map[Problem]bool{}}, masker: mask.New(),
	}, bodies
}

func TestConditionIsWrittenOnlyOnChange(t *testing.T) {
	const before = "2026-11-25T10:00:00Z"
	since, err := time.Parse(time.RFC3339, before)
	if err != nil {
		t.Fatal(err)
	}
	current := corev1.NodeCondition{Type: "X", Status: corev1.ConditionFalse, Reason: "Denied", Message: "denied", LastTransitionTime: metav1.NewTime(since)}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{current}}}
	for name, test := range map[string]struct {
		status          corev1.ConditionStatus
		reason, message string
		want            int // requests: an event and the condition
		keepsTime       bool
	}{
		"the same":        {corev1.ConditionFalse, "Denied", "denied", 0, false},
		"another reason":  {corev1.ConditionFalse, "NotFound", "denied", 2, true},
		"another message": {corev1.ConditionFalse, "Denied", "again", 2, true},
		"another status":  {corev1.ConditionTrue, "Denied", "denied", 2, false},
	} {
		w, bodies := newWriter(t)
		next := corev1.NodeCondition{Type: "X", Status: test.status, Reason: test.reason, Message: test.message}
		if err := w.SetCondition(t.Context(), node, next, Problem{Service: "x", Reason: test.reason, Since: since}); err != nil {
			t.Fatal(err)
		}
		if got := *bodies; len(got) != test.want || test.want > 0 && strings.Contains(got[1], `"lastTransitionTime":"`+before) != test.keepsTime {
			t.Errorf("%s: requests %q", name, got)
		}
	}
}
