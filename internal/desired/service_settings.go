package desired

import (
	"fmt"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// checkServiceSettings refuses what would become a part of a command line and is not one of the values that the schema of WindowsConfig has.
func checkServiceSettings(spec v1alpha1.WindowsConfigSpec) error {
	switch spec.Taint {
	case "", v1alpha1.TaintWindows, v1alpha1.TaintLowerCase:
	default:
		return fmt.Errorf(`%w: WindowsConfig "cluster": spec.taint is %.64q; set %s or %s`,
			ErrSettings, spec.Taint, v1alpha1.TaintWindows, v1alpha1.TaintLowerCase)
	}
	return checkKubelet(spec.Kubelet)
}

// level picks what a service calls a level of detail. What is unknown is Normal.
func level[T any](in Inputs, service string, normal, debug, trace T) T {
	switch in.Config.Logs.Verbosity[service] {
	case v1alpha1.LogDebug:
		return debug
	case v1alpha1.LogTrace:
		return trace
	}
	return normal
}

// klogLevel is the flag of programs that log by klog. Their values of secrets are in no level (KEP-1933 of Kubernetes); levels from 8 on,
// which log the content of requests, are not offered.
func klogLevel(in Inputs, service string) string {
	return fmt.Sprintf(" --v=%d", level(in, service, 2, 4, 6))
}
