package nodestate

import (
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
)

// maxServices is how long annotation services may be, in bytes; the admission policy of WICD has the same limit.
const maxServices = 2048

// Service is a service of a host, as WICD reports it in annotation services of the Node.
type Service struct {
	Name string `json:"name"`
	// State is one of api.ServiceRunning and those beside it.
	State string `json:"state"`
	// WaitsFor names the service or file that has to be there before a service that waits.
	WaitsFor string `json:"waitsFor,omitempty"`
}

// FormatServices is the value of the annotation. Services for which it has no room are left out.
func FormatServices(all []Service) string {
	for ; ; all = all[:len(all)-1] {
		b, err := json.Marshal(all)
		if err == nil && len(b) <= maxServices || len(all) == 0 {
			return string(b)
		}
	}
}

// Services reads the annotation of a Node, which a hostile host may have written. There are none where it has none.
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
			return nil, fmt.Errorf("annotation %s has state %.32q, which is none of a service", api.AnnotationServices, s.State)
		}
	}
	return all, nil
}
