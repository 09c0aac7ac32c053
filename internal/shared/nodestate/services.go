package nodestate

import (
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
)

// maxServices is the maximum size of annotation services, in bytes; WICD's admission policy has the same limit.
const maxServices = 2048

// Service is a service of a host as WICD reports it in annotation services of the Node.
type Service struct {
	Name string `json:"name"`
	// State is api.ServiceRunning or one of its siblings.
	State string `json:"state"`
	// WaitsFor names the service or file that a waiting service needs.
	WaitsFor string `json:"waitsFor,omitempty"`
}

// FormatServices returns the value of the annotation. It drops the last services if they do not fit.
func FormatServices(all []Service) string {
	for ; ; all = all[:len(all)-1] {
		b, err := json.Marshal(all)
		if err == nil && len(b) <= maxServices || len(all) == 0 {
			return string(b)
		}
	}
}

// Services parses the annotation of a Node, which may come from a malicious host. It returns none without an annotation.
func Services(node *corev1.Node) ([]Service, error) {
	report := node.Annotations[api.AnnotationServices]
	if report == "" {
		return nil, nil
	}
	if len(report) > maxServices {
		return nil, fmt.Errorf("annotation %s has %d bytes; at most %d are allowed", api.AnnotationServices, len(report), maxServices)
	}
	var all []Service
	if err := json.Unmarshal([]byte(report), &all); err != nil {
		return nil, errors.New("annotation " + api.AnnotationServices + " is not the JSON that WICD writes")
	}
	for _, s := range all {
		switch s.State {
		case api.ServiceRunning, api.ServiceStopped, api.ServiceWaiting, api.ServiceCrashLoop, api.ServiceNotReady:
		default:
			return nil, fmt.Errorf("annotation %s has state %.32q, which is not a service state", api.AnnotationServices, s.State)
		}
	}
	return all, nil
}
