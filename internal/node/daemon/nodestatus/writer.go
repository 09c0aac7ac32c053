package nodestatus

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/apiclient"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/shared/mask"
)

// Source is a part of the daemon that reports to the Node.
type Source interface {
	// ReportTo updates the Node's conditions and events to the state that the part knows, if they differ.
	ReportTo(ctx context.Context, w *Writer, node *corev1.Node) error
}

// Writer writes conditions and events of the Node.
type Writer struct {
	state.Session
	client *apiclient.Client
	memory *written
	masker *mask.Masker
}

// written is what was written before: the Node after WICD's last write, and the problems that have an event.
type written struct {
	node   *corev1.Node
	events map[Problem]bool
}

// masked returns a text without secrets: it may contain the output of the host's programs, and everyone who may read Nodes can see it.
func (w *Writer) masked(text string) string { return w.masker.Text(text) }

// Annotate sets an annotation of the Node, or removes it if the value is empty.
func (w *Writer) Annotate(ctx context.Context, node *corev1.Node, key, value string) error {
	current, err := w.client.AnnotateNode(ctx, node.Name, map[string]string{key: value})
	if err != nil {
		return err
	}
	w.memory.node = current
	return nil
}

// CreateEvents creates one event for each problem.
func (w *Writer) CreateEvents(ctx context.Context, node *corev1.Node, problems []Problem) error {
	for _, p := range problems {
		p.Message = w.masked(p.Message)
		if w.memory.events[p] {
			continue
		}
		if err := w.client.CreateEvent(ctx, eventOf(node, p)); err != nil {
			return err
		}
		w.memory.events[p] = true
	}
	return nil
}

// isOlder reports whether a Node is an earlier version of another one, which may be nil.
func isOlder(node, other *corev1.Node) bool {
	if other == nil || node.UID != other.UID {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(node.ResourceVersion, other.ResourceVersion)
	return err == nil && order < 0
}

// eventOf returns the event for a problem. Its name includes the problem's time, so that it is created only once. Events of cluster-scoped
// objects are in namespace default.
func eventOf(node *corev1.Node, p Problem) *eventsv1.Event {
	return &eventsv1.Event{
		TypeMeta:            metav1.TypeMeta{APIVersion: eventsv1.SchemeGroupVersion.String(), Kind: "Event"},
		ObjectMeta:          metav1.ObjectMeta{Name: eventName(node.Name, p), Namespace: metav1.NamespaceDefault},
		EventTime:           metav1.NewMicroTime(p.Since),
		ReportingController: api.WICDService, ReportingInstance: node.Name,
		Action: "KeepServices", Reason: p.Reason, Type: corev1.EventTypeWarning, Note: p.Message,
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
	}
}

// eventName returns the name of an event. Kubernetes allows fewer characters in it than Windows in the name of a service.
func eventName(node string, p Problem) string {
	service := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(p.Service))
	return fmt.Sprintf("%s.service-%s.%x", node, strings.Trim(service, "-"), p.Since.UnixNano())
}
