package desired

import (
	"fmt"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// checkServiceSettings rejects values for command lines that the schema of WindowsConfig does not allow.
func checkServiceSettings(spec v1alpha1.WindowsConfigSpec) error {
	switch spec.Taint {
	case "", v1alpha1.TaintWindows, v1alpha1.TaintLowerCase:
	default:
		return fmt.Errorf(`%w: WindowsConfig "cluster": spec.taint is %.64q; set %s or %s`,
			ErrSettings, spec.Taint, v1alpha1.TaintWindows, v1alpha1.TaintLowerCase)
	}
	return checkKubelet(spec.Kubelet)
}

// level returns a service's name or number for its configured log level. Unknown levels count as Normal.
func level[T any](in Inputs, service string, normal, debug, trace T) T {
	switch in.Config.Logs.Verbosity[service] {
	case v1alpha1.LogDebug:
		return debug
	case v1alpha1.LogTrace:
		return trace
	}
	return normal
}

// klogLevel returns the verbosity flag of programs that use klog. They log no secrets at any level (KEP-1933 of Kubernetes). Levels from 8,
// which log the content of requests, are not offered.
func klogLevel(in Inputs, service string) string {
	return fmt.Sprintf(" --v=%d", level(in, service, 2, 4, 6))
}
