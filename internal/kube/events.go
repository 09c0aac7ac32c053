// Package kube holds the few things that all controllers share: events, watches on kinds that a cluster need not have,
// back-off, slots, and what is asked of Nodes, WindowsInstances and WindowsConfig in more than one place. It decides nothing.
package kube

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/internal/mask"
	"github.com/windows-machine-config/wmco/internal/shorten"
)

// Event is something that happened to an object. Events that are alike in all of these are counted as one, with the note
// of the first: what differs in more than its wording must differ in one of them.
type Event struct {
	// Object is what it is about; related another one it has to do with, or nil.
	Object, Related client.Object
	// Type is Normal or Warning.
	Type   string
	Reason string
	// Action says what was done or tried, or which part of it failed; for programs.
	Action string
}

// Events records events about objects.
//
// Notes quote what programs, hosts and registries say: secrets in them are masked, since many may read events.
type Events struct {
	recorder events.EventRecorder
	masker   *mask.Masker
}

// NewEvents records events with a recorder.
func NewEvents(r events.EventRecorder) Events { return Events{recorder: r, masker: mask.New()} }

// Masked is a text without secrets, for an object that says the same as an event.
func (l Events) Masked(text string) string { return l.masker.Text(text) }

// Emit records an event.
func (l Events) Emit(e Event, format string, args ...any) {
	note := shorten.Text(l.Masked(fmt.Sprintf(format, args...)), shorten.Note)
	var related runtime.Object
	if e.Related != nil {
		related = e.Related
	}
	l.recorder.Eventf(e.Object, related, e.Type, e.Reason, e.Action, "%s", note)
}
