package hcs

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Parameters are the parameters of a new process.
type Parameters struct {
	CommandLine, WorkingDirectory, User                 string
	Environment                                         map[string]string
	CreateStdInPipe, CreateStdOutPipe, CreateStdErrPipe bool
	EmulateConsole                                      bool
}

// ParseParameters parses the document of a new process.
func ParseParameters(document string) (Parameters, error) {
	var p Parameters
	if err := json.Unmarshal([]byte(document), &p); err != nil {
		return p, fmt.Errorf("%w: %w", InvalidJSON, err)
	}
	if p.CommandLine == "" {
		return p, fmt.Errorf("the document has no command line: %w", InvalidJSON)
	}
	if !p.userExists() {
		return p, fmt.Errorf("a container has no user %q: %w", p.User, LogonFailure)
	}
	return p, nil
}

// userExists reports whether every container has the user. An empty name means the image's default user.
func (p Parameters) userExists() bool {
	domain, name, found := strings.Cut(p.User, `\`)
	if !found {
		domain, name = "User Manager", p.User
	}
	switch strings.ToLower(domain) {
	case "nt authority":
		return true
	case "user manager":
		return name == "" || strings.EqualFold(name, "ContainerUser") || strings.EqualFold(name, "ContainerAdministrator")
	}
	return false
}

// Candidates returns the possible paths in the container of the program of a command line. A name without a folder is searched in the
// working folder, in PATH and in Windows' folders.
func (p Parameters) Candidates(program string) []string {
	if strings.ContainsAny(program, `\/:`) {
		return []string{program}
	}
	folders := []string{p.WorkingDirectory}
	for name, value := range p.Environment {
		if strings.EqualFold(name, "PATH") {
			folders = append(folders, strings.Split(value, ";")...)
		}
	}
	var paths []string
	for _, folder := range append(folders, `C:\windows\system32`, `C:\windows`) {
		if folder != "" {
			paths = append(paths, strings.TrimSuffix(folder, `\`)+`\`+program)
		}
	}
	return paths
}

// Inside returns the host's path of a path on drive C: of a compute system: below root if it exists there, otherwise the path
// itself, so that Windows' programs are found. ".exe" may be omitted.
func Inside(root, path string, exists func(string) bool) string {
	path = strings.ReplaceAll(path, "/", `\`)
	below := strings.TrimPrefix(path, `\`)
	if drive, rest, found := strings.Cut(path, `:`); found && strings.EqualFold(drive, "C") {
		below = strings.TrimPrefix(rest, `\`)
	} else if found {
		return path
	}
	for _, ending := range []string{"", ".exe"} {
		if inside := strings.TrimSuffix(root+`\`+below+ending, `\`); exists(inside) {
			return inside
		}
	}
	if !exists(path) && exists(path+".exe") {
		return path + ".exe"
	}
	return path
}

// Block returns the environment of a process, sorted by name: Windows' variables unless the container overrides them, the
// container's, and the lab's.
func (p Parameters) Block(hostName string, lab ...string) []string {
	values := map[string]string{
		"SYSTEMROOT": `SystemRoot=C:\windows`, "SYSTEMDRIVE": "SystemDrive=C:", "PATH": `PATH=C:\windows\system32;C:\windows`,
		"TEMP": `TEMP=C:\windows\temp`, "TMP": `TMP=C:\windows\temp`, "COMPUTERNAME": "COMPUTERNAME=" + shortName(hostName),
	}
	if p.User != "" {
		values["USERNAME"] = "USERNAME=" + p.User[strings.LastIndex(p.User, `\`)+1:]
	}
	for name, value := range p.Environment {
		values[strings.ToUpper(name)] = name + "=" + value
	}
	for _, variable := range lab {
		name, _, _ := strings.Cut(variable, "=")
		values[name] = variable
	}
	var block []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		block = append(block, values[name])
	}
	return block
}

// shortName returns a computer's NetBIOS name: 15 characters, in capitals.
func shortName(hostName string) string {
	return strings.ToUpper(hostName[:min(len(hostName), 15)])
}

// An Event is a console control event, with the number that handlers get.
type Event uint32

// SignalOf parses the options of a signal: the event to send, or whether to terminate.
func SignalOf(options string) (event Event, terminate bool, err error) {
	var o struct{ Signal string }
	if options != "" {
		if err := json.Unmarshal([]byte(options), &o); err != nil {
			return 0, false, fmt.Errorf("%w: %w", InvalidJSON, err)
		}
	}
	events := map[string]Event{"CtrlC": 0, "CtrlBreak": 1, "CtrlClose": 2, "CtrlLogOff": 5, "CtrlShutdown": 6}
	event, known := events[o.Signal]
	switch {
	case o.Signal == "" || o.Signal == "Terminate":
		return 0, true, nil
	case !known:
		return 0, false, fmt.Errorf("signal %q: %w", o.Signal, NotImplemented)
	}
	return event, false, nil
}
