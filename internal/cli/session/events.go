package session

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
)

// Events returns the events of the operator's namespace and of the Windows nodes. Nodes are cluster-scoped, and their events are in namespace
// default.
func (s *Session) Events(ctx context.Context) ([]fleetstatus.Event, error) {
	c, err := s.Client()
	if err != nil {
		return nil, err
	}
	_, namespace, _, err := s.instances(ctx, c)
	if err != nil {
		return nil, err
	}
	r := reading{Client: c, ctx: ctx}
	r.in.Namespace = namespace
	r.Go(r.nodes)
	r.Go(func() { r.events(namespace, fields.Set{}) })
	r.Go(func() { r.events(metav1.NamespaceDefault, fields.Set{"involvedObject.kind": "Node"}) })
	r.Wait()
	for _, u := range r.in.Unread {
		if u.What == "events" && len(r.in.Events) == 0 {
			return nil, failf(CodeForbidden, "%s", u.Why)
		}
	}
	windows := map[string]bool{}
	for i := range r.in.Nodes {
		windows[r.in.Nodes[i].Name] = true
	}
	var all []fleetstatus.Event
	for i := range r.in.Events {
		e := &r.in.Events[i]
		if e.InvolvedObject.Kind != "Node" || windows[e.InvolvedObject.Name] {
			all = append(all, fleetstatus.EventOf(e))
		}
	}
	return all, nil
}
