package nodestatus

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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
	memory := &written{events: map[Problem]bool{}}
	var bodies []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		bodies = append(bodies, string(body))
		_, _ = io.WriteString(w, `{"kind":"Node","apiVersion":"v1"}`)
	}))
	defer server.Close()
	client, err := kubeapi.New(kubeapi.Options{Server: identity.Server{Address: server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	w := &Writer{
		Session: state.Session{Host: hostapi.Host{Disk: hostapi.Disk{Root: t.TempDir()}}, Log: slog.New(slog.DiscardHandler)},
		client:  &apiclient.Client{Client: client},
		memory:  memory, masker: mask.New(),
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1"}}
	c := corev1.NodeCondition{Type: "WindowsDefenderInterference", Status: corev1.ConditionTrue, Reason: "X", Message: "net user evil hunter2 /add failed"}
	for range 2 {
		if err := w.KeepCondition(t.Context(), node, c); err != nil {
			t.Fatal(err)
		}
		notified := c
		notified.Message = "net user evil *** /add failed"
		node.Status.Conditions = []corev1.NodeCondition{notified}
	}
	if err := w.SetCondition(t.Context(), node, c); err != nil {
		t.Fatal(err)
	}
	if len(bodies) != 1 || strings.Contains(bodies[0], "hunter2") || !strings.Contains(bodies[0], "net user evil *** /add failed") {
		t.Errorf("what was written: %q", bodies)
	}
}
