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
	CommandLine, WorkingDirectory                       string
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
	return p, nil
}

// Inside is the host's path of a path in a compute system, which has no drive C: of its own: below root if it exists there, or
// else the path itself, so that the programs of Windows are found. ".exe" may be omitted.
func Inside(root, path string, exists func(string) bool) string {
	path = strings.ReplaceAll(path, "/", `\`)
	below := strings.TrimPrefix(path, `\`)
	if drive, rest, found := strings.Cut(path, `:`); found && strings.EqualFold(drive, "C") {
		below = strings.TrimPrefix(rest, `\`)
	} else if found {
		return path
	}
	for _, candidate := range []string{below, below + ".exe"} {
		if inside := strings.TrimSuffix(root+`\`+candidate, `\`); exists(inside) {
			return inside
		}
	}
	return path
}

// Block is the environment of a process: Windows' own variables unless the container overrides them, and the container's, sorted
// by name.
func (p Parameters) Block(hostName string) []string {
	values := map[string]string{
		"SYSTEMROOT": `SystemRoot=C:\windows`, "SYSTEMDRIVE": "SystemDrive=C:", "PATH": `PATH=C:\windows\system32;C:\windows`,
		"TEMP": `TEMP=C:\windows\temp`, "TMP": `TMP=C:\windows\temp`, "COMPUTERNAME": "COMPUTERNAME=" + hostName,
	}
	for name, value := range p.Environment {
		values[strings.ToUpper(name)] = name + "=" + value
	}
	var block []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		block = append(block, values[name])
	}
	return block
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

// ClosesInput reports whether a request to modify a process closes its standard input.
func ClosesInput(request string) bool {
	var r struct {
		Operation   string
		CloseHandle struct{ Handle string }
	}
	err := json.Unmarshal([]byte(request), &r)
	return err == nil && r.Operation == "CloseHandle" && r.CloseHandle.Handle == "StdIn"
}
