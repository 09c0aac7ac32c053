package fleetstatus

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

// Services are the services of a host, as its Node reports them.
type Services struct {
	// Outdated means that the node no longer responds: this is what it reported last.
	Outdated bool `json:"outdated,omitempty"`
	// List is in the order in which the services start.
	List []Service `json:"list"`
}

// Service is a service of a host.
type Service struct {
	// Name is the name in Windows' service manager.
	Name string `json:"name"`
	// State is one of the states of annotation services.
	State string `json:"state"`
	Good  bool   `json:"good"`
	// WaitsFor names what a waiting service waits for.
	WaitsFor string `json:"waitsFor,omitempty"`
}

// servicesOf returns the services that a Node reports; nil if it reports none.
func servicesOf(node *corev1.Node) *Services {
	all, err := nodestate.Services(node)
	if err != nil || len(all) == 0 {
		return nil // an annotation that WICD did not write is ignored
	}
	ready := nodestate.Ready(node)
	s := &Services{Outdated: ready != nil && ready.Status == corev1.ConditionUnknown}
	for _, current := range all {
		s.List = append(s.List, Service{Name: label(current.Name), State: label(current.State), Good: current.State == api.ServiceRunning, WaitsFor: label(current.WaitsFor)})
	}
	return s
}
