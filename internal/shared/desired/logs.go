package desired

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// Defaults for WindowsConfig; its schema has the same values.
const (
	logSize  = "100Mi"
	logAge   = "168h"
	logCount = 5
)

// renderLogs returns the limits of logs. It rejects only what the schema of WindowsConfig does not allow.
func renderLogs(spec v1alpha1.LogsSpec) (LogLimits, error) {
	const object = `WindowsConfig "cluster": spec.logs`
	size, err := resource.ParseQuantity(cmp.Or(spec.Size, logSize))
	if err != nil || size.Value() <= 0 {
		return LogLimits{}, fmt.Errorf("%w: %s.size is %q; set a quantity of bytes such as %s", ErrSettings, object, spec.Size, logSize)
	}
	age, err := time.ParseDuration(cmp.Or(spec.Age, logAge))
	if err != nil || age <= 0 {
		return LogLimits{}, fmt.Errorf("%w: %s.age is %q; set a duration such as %s", ErrSettings, object, spec.Age, logAge)
	}
	if spec.Count < 0 {
		return LogLimits{}, fmt.Errorf("%w: %s.count is %d; set a number from 1", ErrSettings, object, spec.Count)
	}
	return LogLimits{Size: size.Value(), Age: metav1.Duration{Duration: age}, Count: int(cmp.Or(spec.Count, logCount))}, nil
}
