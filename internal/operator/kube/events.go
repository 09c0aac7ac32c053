// Package kube holds helpers that several controllers share: events, watches on optional kinds, back-off, slots, and common queries of Nodes,
// WindowsInstances and WindowsConfig. It makes no decisions.
package kube

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/internal/shared/mask"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// Event is something that happened to an object. Events that are equal in all of these fields are counted as one, with the note of the first, so
// events that differ in more than their wording must differ in one of these fields.
type Event struct {
	// Object is the object of the event; Related is another object involved, or nil.
	Object, Related client.Object
	// Type is Normal or Warning.
	Type   string
	Reason string
	// Action is what was done or attempted, or the part of it that failed; for programs.
	Action string
}

// Events records events about objects.
//
// Notes quote programs, hosts and registries. Secrets in them are masked, since many users can read events.
type Events struct {
	recorder events.EventRecorder
	masker   *mask.Masker
}

// NewEvents returns Events that use a recorder.
func NewEvents(r events.EventRecorder) Events { return Events{recorder: r, masker: mask.New()} }

// Masked returns a text without secrets, for an object that has the same message as an event.
func (l Events) Masked(text string) string { return l.masker.Text(text) }

// Emit records an event.
func (l Events) Emit(e Event, format string, args ...any) {
	note := truncate.Text(l.Masked(fmt.Sprintf(format, args...)), truncate.Note)
	var related runtime.Object
	if e.Related != nil {
		related = e.Related
	}
	l.recorder.Eventf(e.Object, related, e.Type, e.Reason, e.Action, "%s", note)
}
