package desired

import (
	"maps"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// DisruptionOf returns the greatest effect on pods of what WICD does to turn a host that is Node old into Node new. Changes by secrets and
// variables are visible only in Nodes that come from On. A test in internal/node/daemon compares the result with what WICD does.
func DisruptionOf(old, new Node) v1alpha1.PlanDisruption {
	// Enabling a feature may require a restart of Windows, which Windows reports only when it is enabled. Hyper-V waits for a later restart.
	if slices.ContainsFunc(new.Features, func(f string) bool { return f != HyperVFeature && !slices.Contains(old.Features, f) }) {
		return v1alpha1.DisruptionReboot
	}
	programs := replacedPrograms(old, new)
	if slices.ContainsFunc(programs, isNeededByPods) {
		return v1alpha1.DisruptionDrain
	}
	changed := changedFiles(old, new)
	for _, path := range programs {
		changed = append(changed, Root+`\`+path)
		if old.Digest == new.Digest { // otherwise the command lines differ
			changed = append(changed, VersionFolder(new.Digest)+`\`+path)
		}
	}
	for _, s := range new.Services {
		i := slices.IndexFunc(old.Services, func(o Service) bool { return o.Name == s.Name })
		if i >= 0 && (!SameDeclaration(old.Services[i], s) || slices.ContainsFunc(changed, s.names)) {
			return v1alpha1.DisruptionRestart
		}
	}
	return v1alpha1.DisruptionNone
}

// replacedPrograms returns the paths of programs whose content differs.
func replacedPrograms(old, new Node) (paths []string) {
	previous := map[string]string{}
	for _, f := range old.Payload {
		previous[f.Path] = f.SHA256
	}
	for _, f := range new.Payload {
		if hash, found := previous[f.Path]; found && hash != f.SHA256 {
			paths = append(paths, f.Path)
		}
	}
	return paths
}

// isNeededByPods reports whether pods depend on a program: containerd, its shims, and the kubelet.
func isNeededByPods(path string) bool {
	return path == "kubelet.exe" || strings.HasPrefix(path, `containerd\`)
}

// changedFiles returns the paths of files that differ, come or go.
func changedFiles(old, new Node) (paths []string) {
	previous := map[string]string{}
	for _, f := range old.Files {
		previous[f.Path] = f.Content
	}
	for _, f := range new.Files {
		if content, found := previous[f.Path]; !found || content != f.Content {
			paths = append(paths, f.Path)
		}
		delete(previous, f.Path)
	}
	return slices.AppendSeq(paths, maps.Keys(previous))
}

// names reports whether the command line names a file, ignoring case as Windows does.
func (s Service) names(path string) bool {
	return strings.Contains(strings.ToLower(s.Command), strings.ToLower(path))
}

// SameDeclaration reports whether a process that was started from one declaration also satisfies the other: description, command line,
// environment and dependencies, in any order, are equal. Otherwise the service is stopped, redeclared and started.
func SameDeclaration(a, b Service) bool {
	return a.Description == b.Description && a.Command == b.Command &&
		SameNames(a.DependsOn, b.DependsOn) && maps.Equal(a.Environment, b.Environment)
}

// SameNames compares names of services as Windows does: in any order, and ignoring case.
func SameNames(a, b []string) bool { return slices.Equal(sortedNames(a), sortedNames(b)) }

func sortedNames(names []string) []string {
	var lower []string
	for _, name := range names {
		lower = append(lower, strings.ToLower(name))
	}
	slices.Sort(lower)
	return lower
}
