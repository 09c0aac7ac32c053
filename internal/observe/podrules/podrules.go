// Package podrules holds rules for pods on Windows nodes: fields that Windows does not support or treats differently from Linux, and what a pod
// needs to be scheduled to a Windows node. It does no I/O: kubectl windows lint prints its findings, and docs/workloads.md contains its table.
//
// The fields that the API server rejects in a pod with os.name "windows" are those of validateWindows in
// k8s.io/kubernetes/pkg/apis/core/validation; a test compares them with an API server. Another test extracts what Kubernetes, in each minor
// version of the payload, rejects on Windows, and fails if no rule covers it. What Kubernetes silently ignores is from its page "Windows
// containers in Kubernetes".
package podrules

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Rule is a field that pods on Windows nodes should not have.
type Rule struct {
	// Path is the field below the pod's spec. containers[*] matches containers of all kinds, [*] each item of a list, and a trailing * the rest
	// of a key.
	Path string
	// Values are the values to which the rule applies, as in YAML; all values if empty.
	Values []string
	// Except lists the allowed values.
	Except []string
	// Defaults are values that the API server sets by default; an admission policy cannot distinguish them from a user's.
	Defaults []string
	// Refused means that the API server rejects the field in a pod whose os.name is windows. Without os.name, it is ignored at best.
	Refused bool
	// Stops means that a pod with it does not run on a Windows node. Otherwise, the field has no effect there.
	Stops bool
	// HostProcess means that the rule does not apply to pods of HostProcess containers.
	HostProcess bool
	// Why describes the effect, Instead what to write; both are sentences.
	Why, Instead string
	// Example is a value that breaks the rule, as JSON.
	Example string
}

// Texts that several rules share.
const (
	whyLinux   = "Windows does not support it."
	whyUser    = "Windows has no numeric user IDs."
	useUser    = "Set securityContext.windowsOptions.runAsUserName."
	whyModules = "It is a Linux security module."
	remove     = "Remove the field."
)

// Rules returns all rules.
func Rules() []Rule {
	return slices.Concat(podFields(), podSecurity(), containerSecurity(), volumes(), containerFields())
}

func podFields() []Rule {
	return []Rule{
		{Path: "hostPID", Values: []string{"true"}, Refused: true, Why: "Windows has no process namespaces.", Instead: "Remove the field; HostProcess containers see the host's processes.", Example: "true"},
		{Path: "hostIPC", Values: []string{"true"}, Refused: true, Why: "Windows has no IPC namespaces.", Instead: remove, Example: "true"},
		{Path: "hostUsers", Refused: true, Why: "Windows has no user namespaces.", Instead: remove, Example: "false"},
		{Path: "shareProcessNamespace", Refused: true, Why: "Windows has no process namespaces.", Instead: remove, Example: "true"},
		{Path: "hostNetwork", Values: []string{"true"}, Stops: true, HostProcess: true, Why: "Only HostProcess containers can use the host's network.",
			Instead: "Remove the field, or make the containers HostProcess containers.", Example: "true"},
		{Path: "dnsPolicy", Values: []string{"ClusterFirstWithHostNet"}, Stops: true, HostProcess: true, Why: "Windows does not support it.", Instead: "Use ClusterFirst.",
			Example: `"ClusterFirstWithHostNet"`},
		{Path: "resources", Refused: true, Why: "Windows has no pod-level resource limits.", Instead: "Set resources of the containers.", Example: `{"limits":{"memory":"8Gi"}}`},
		// No error is reported: pkg/kubelet/cm/container_manager_windows.go prepares no devices, and no driver for Windows exists.
		{Path: "resourceClaims", Stops: true, Why: "Windows nodes have no devices for resource claims.", Instead: "Remove the field; device plugins do run on Windows.",
			Example: `[{"name":"gpu","resourceClaimName":"gpu"}]`},
	}
}

func podSecurity() []Rule {
	field := func(name, reason, instead, example string) Rule {
		return Rule{Path: "securityContext." + name, Refused: true, Why: reason, Instead: instead, Example: example}
	}
	return []Rule{
		field("appArmorProfile", whyModules, remove, `{"type":"RuntimeDefault"}`),
		field("seLinuxOptions", whyModules, remove, `{"level":"s0"}`),
		field("seLinuxChangePolicy", whyModules, remove, `"Recursive"`),
		field("seccompProfile", whyLinux, "Remove the field; with os.name windows, Pod Security Standards do not require it.", `{"type":"RuntimeDefault"}`),
		field("fsGroup", "Volumes on Windows have access control lists, which Kubernetes does not change.", remove, "1000"),
		field("fsGroupChangePolicy", "Volumes on Windows have access control lists, which Kubernetes does not change.", remove, `"Always"`),
		field("sysctls", whyLinux, remove, `[{"name":"kernel.shm_rmid_forced","value":"1"}]`),
		field("supplementalGroups", "Windows has no numeric group IDs.", remove, "[1000]"),
		field("supplementalGroupsPolicy", "Windows has no numeric group IDs.", remove, `"Strict"`),
		field("runAsUser", whyUser, useUser, "1000"),
		field("runAsGroup", whyUser, useUser, "1000"),
	}
}

func containerSecurity() []Rule {
	field := func(name, reason, instead, example string) Rule {
		return Rule{Path: "containers[*].securityContext." + name, Refused: true, Why: reason, Instead: instead, Example: example}
	}
	return []Rule{
		field("appArmorProfile", whyModules, remove, `{"type":"RuntimeDefault"}`),
		field("seLinuxOptions", whyModules, remove, `{"level":"s0"}`),
		field("seccompProfile", whyLinux, remove, `{"type":"RuntimeDefault"}`),
		field("capabilities", whyLinux, "Remove the field; with os.name windows, Pod Security Standards do not require it.", `{"drop":["ALL"]}`),
		field("readOnlyRootFilesystem", "Windows containers write to their registry and system folders.", remove, "true"),
		field("privileged", "Windows has no privileged containers.", "Use HostProcess containers: securityContext.windowsOptions.hostProcess.", "true"),
		field("allowPrivilegeEscalation", whyLinux, "Remove the field; with os.name windows, Pod Security Standards do not require it.", "false"),
		field("procMount", "Windows has no /proc.", remove, `"Default"`),
		field("runAsUser", whyUser, useUser, "1000"),
		field("runAsGroup", whyUser, useUser, "1000"),
	}
}

func volumes() []Rule {
	all := []Rule{
		{Path: "volumes[*].emptyDir.medium", Values: []string{"Memory"}, Stops: true, Why: "Windows has no in-memory file systems.", Instead: remove, Example: `"Memory"`},
		{Path: "volumes[*].emptyDir.medium", Values: []string{"HugePages"}, Stops: true, Why: "Windows has no huge pages for containers.", Instead: remove, Example: `"HugePages"`},
		{Path: "volumes[*].image", Stops: true, Why: "containerd on Windows does not mount images as volumes.", Instead: "Copy the files in an init container.",
			Example: `{"reference":"example.com/data:1"}`}, // https://github.com/containerd/containerd/issues/11903
	}
	mode := func(path string, defaults ...string) {
		all = append(all, Rule{
			Path: "volumes[*]." + path, Defaults: defaults, Why: "Windows has access control lists instead of file modes.", Instead: remove, Example: "256",
		})
	}
	for _, source := range []string{"configMap", "secret", "projected", "downwardAPI"} {
		mode(source+".defaultMode", "420")
	}
	for _, source := range []string{"configMap", "secret", "downwardAPI"} {
		mode(source + ".items[*].mode")
		mode("projected.sources[*]." + source + ".items[*].mode")
	}
	return all
}

func containerFields() []Rule {
	return []Rule{
		{Path: "containers[*].volumeDevices", Stops: true, Why: "Windows nodes have no raw block volumes.", Instead: "Use volumeMounts.", Example: `[{"name":"data","devicePath":"/dev/x"}]`},
		{Path: "containers[*].volumeMounts[*].mountPropagation", Except: []string{"None"}, Stops: true, Why: "Windows does not propagate mounts.", Instead: remove,
			Example: `"HostToContainer"`},
		{Path: "containers[*].resources.limits.hugepages-*", Stops: true, Why: "Windows has no huge pages for containers.", Instead: remove, Example: `"2Mi"`},
		{Path: "containers[*].lifecycle.stopSignal", Except: []string{"SIGTERM", "SIGKILL"}, Why: "Windows supports only SIGTERM and SIGKILL.", Instead: remove,
			Example: `"SIGUSR1"`}, // rejected if the feature gate ContainerStopSignals is on
	}
}

// Severity is how bad a finding is.
type Severity string

// Severities of findings.
const (
	// Error means that the pod is rejected, or does not run on a Windows node.
	Error Severity = "error"
	// Warning means that the pod runs, but not as specified.
	Warning Severity = "warning"
)

// Finding is a problem of a pod.
type Finding struct {
	Severity Severity `json:"severity"`
	// Field is its path below the pod's spec, as in containers[0].securityContext.privileged.
	Field string `json:"field"`
	// Message describes the effect, Remedy what to write.
	Message string `json:"message"`
	Remedy  string `json:"remedy"`
}

// broken returns the fields of a pod's spec that break the rule.
func (r Rule) broken(spec map[string]any, isHostProcess bool) (found []Finding) {
	if r.HostProcess && isHostProcess {
		return nil
	}
	severity := Warning
	if r.Refused || r.Stops {
		severity = Error
	}
	for _, f := range fieldsOf(spec, r.Path) {
		value := fmt.Sprint(f.value)
		if len(r.Values) > 0 && !slices.Contains(r.Values, value) || slices.Contains(r.Except, value) {
			continue
		}
		found = append(found, Finding{Severity: severity, Field: f.path, Message: r.Why, Remedy: r.Instead})
	}
	return found
}

type field struct {
	path  string
	value any
}

func kinds() []string { return []string{"initContainers", "containers", "ephemeralContainers"} }

// fieldsOf returns the fields that match a path. An empty list counts as absent.
func fieldsOf(spec map[string]any, path string) (found []field) {
	if rest, isContainer := strings.CutPrefix(path, "containers[*]."); isContainer {
		for _, kind := range kinds() {
			found = append(found, walk("", spec, append([]string{kind + "[*]"}, strings.Split(rest, ".")...))...)
		}
		return found
	}
	return walk("", spec, strings.Split(path, "."))
}

func walk(at string, object map[string]any, path []string) (found []field) {
	name, isList := strings.CutSuffix(path[0], "[*]")
	if prefix, isPrefix := strings.CutSuffix(name, "*"); isPrefix && !isList {
		for _, key := range slices.Sorted(maps.Keys(object)) {
			if strings.HasPrefix(key, prefix) {
				found = append(found, field{at + "." + key, object[key]})
			}
		}
		return found
	}
	value, ok := object[name]
	if !ok || value == nil {
		return nil
	}
	fieldPath := strings.TrimPrefix(at+"."+name, ".")
	if !isList {
		if items, isItems := value.([]any); isItems && len(items) == 0 {
			return nil
		}
		if len(path) == 1 {
			return []field{{fieldPath, value}}
		}
		below, _ := value.(map[string]any)
		return walk(fieldPath, below, path[1:])
	}
	items, _ := value.([]any)
	for i, item := range items {
		below, _ := item.(map[string]any)
		found = append(found, walk(fmt.Sprintf("%s[%d]", fieldPath, i), below, path[1:])...)
	}
	return found
}

// Table returns the table of all rules, as Markdown.
func Table() string {
	var b strings.Builder
	b.WriteString("| Field of the pod's spec | Effect | What to write instead |\n| --- | --- | --- |\n")
	for _, r := range Rules() {
		name := "`" + r.Path + "`"
		switch {
		case len(r.Values) == 1:
			name += " = " + r.Values[0]
		case len(r.Except) > 0:
			name += " other than " + strings.Join(r.Except, ", ")
		}
		effect := "Ignored."
		switch {
		case r.Refused:
			effect = "Refused with `os.name: windows`."
		case r.Stops:
			effect = "The pod does not run."
		}
		if r.HostProcess {
			effect = "Without HostProcess containers, the pod does not run."
		}
		fmt.Fprintf(&b, "| %s | %s %s | %s |\n", name, effect, r.Why, r.Instead)
	}
	return b.String()
}
