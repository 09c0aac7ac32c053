package desired

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// Exclusions are what Microsoft Defender does not scan.
type Exclusions struct {
	// Processes are paths of programs. Files that they open are not scanned; the programs themselves are.
	Processes []string `json:"processes,omitempty"`
	// Paths are files, and folders with their contents.
	Paths []string `json:"paths,omitempty"`
}

// IsEmpty reports whether nothing is excluded.
func (e Exclusions) IsEmpty() bool { return len(e.Processes) == 0 && len(e.Paths) == 0 }

// Without returns the exclusions that are not among others. Case and a trailing backslash are ignored.
func (e Exclusions) Without(others Exclusions) Exclusions {
	return Exclusions{Processes: without(e.Processes, others.Processes, isSame), Paths: without(e.Paths, others.Paths, isSame)}
}

// Beyond returns the exclusions that others do not cover. A folder covers the paths in it, and a file name alone covers a process of
// that name. Entries with wildcards or variables do not cover anything.
func (e Exclusions) Beyond(others Exclusions) Exclusions {
	isAbove := func(path, other string) bool {
		folder := strings.TrimRight(other, `\`) + `\`
		return isSame(path, other) || len(path) > len(folder) && strings.EqualFold(path[:len(folder)], folder)
	}
	isName := func(process, other string) bool {
		return isSame(process, other) || strings.EqualFold(process[strings.LastIndexByte(process, '\\')+1:], other)
	}
	return Exclusions{Processes: without(e.Processes, others.Processes, isName), Paths: without(e.Paths, others.Paths, isAbove)}
}

// And returns these exclusions and others, each once.
func (e Exclusions) And(others Exclusions) Exclusions {
	more := others.Without(e)
	return Exclusions{Processes: slices.Concat(e.Processes, more.Processes), Paths: slices.Concat(e.Paths, more.Paths)}
}

// List describes each exclusion in words.
func (e Exclusions) List() []string {
	var list []string
	for _, p := range e.Processes {
		list = append(list, "process "+p)
	}
	for _, p := range e.Paths {
		list = append(list, "path "+p)
	}
	return list
}

func without(list, others []string, includes func(x, other string) bool) []string {
	return slices.DeleteFunc(slices.Clone(list), func(x string) bool {
		return slices.ContainsFunc(others, func(other string) bool { return includes(x, other) })
	})
}

func isSame(a, b string) bool {
	return strings.EqualFold(strings.TrimRight(a, `\`), strings.TrimRight(b, `\`))
}

// exclusions returns those of containerd and its data: scanning each layer while it is unpacked multiplies the time, and a file that is
// being scanned cannot be renamed or removed. Files that containers read and write are still scanned.
func exclusions(in Inputs) Exclusions {
	if in.Config.Runtime.DefenderExclusions == v1alpha1.DefenderExclusionsNone {
		return Exclusions{}
	}
	return containerdExclusions(in.Payload.Digest)
}

func containerdExclusions(digest string) Exclusions {
	return Exclusions{
		Processes: []string{VersionFolder(digest) + `\containerd\containerd.exe`},
		Paths:     []string{ContainerdRoot, ContainerdState},
	}
}

// checkExclusions allows only the exclusions of containerd.
func (n Node) checkExclusions() error {
	allowed := containerdExclusions(n.Digest)
	for _, path := range n.Exclusions.Processes {
		if !slices.Contains(allowed.Processes, path) {
			return fmt.Errorf("Defender exclusion of process %.128q is not allowed; allowed: %s", path, allowed.Processes[0])
		}
	}
	for _, path := range n.Exclusions.Paths {
		if !slices.Contains(allowed.Paths, path) {
			return fmt.Errorf("Defender exclusion of path %.128q is not allowed; allowed: %s", path, strings.Join(allowed.Paths, ", "))
		}
	}
	return nil
}
