package win

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/win/scm"
)

// endLeftovers kills the programs that the killed process of a service left running, such as the kubelet of kube-log-runner. They would block the
// ports of the next process. Only programs in the command line are killed: containers continue without containerd.
func endLeftovers(ctx context.Context, command string) error {
	for _, program := range furtherPrograms(command) {
		left, err := processesOf(program)
		if err != nil {
			return fmt.Errorf("listing processes of %s: %w", program, err)
		}
		for _, p := range left {
			defer p.Close()
			slog.Warn("Ending a leftover program of a service", "program", program)
			if err := p.End(); err != nil {
				return fmt.Errorf("ending a leftover process of %s: %w", program, err)
			}
		}
		for _, p := range left {
			for !p.Ended() {
				if err := backoff.Sleep(ctx, tick); err != nil {
					return fmt.Errorf("waiting for a leftover process of %s to end: %w", program, err)
				}
			}
		}
	}
	return nil
}

// furtherPrograms returns the programs that a command line names after the first.
func furtherPrograms(command string) (programs []string) {
	for i, word := range strings.Fields(command) {
		if word = strings.Trim(word, `"`); i > 0 && strings.HasSuffix(strings.ToLower(word), ".exe") {
			programs = append(programs, word)
		}
	}
	return programs
}

// processesOf opens the processes that run a program.
func processesOf(program string) ([]scm.Process, error) {
	return openProcesses(program[strings.LastIndexByte(program, '\\')+1:], func(image string) bool { return strings.EqualFold(image, program) })
}

// openProcesses opens the processes whose program has this file name (any, if it is empty) and a wanted path.
func openProcesses(file string, wanted func(image string) bool) (found []scm.Process, err error) {
	snapshot, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPPROCESS, 0)
	if err != nil {
		return nil, err
	}
	defer windows.CloseHandle(snapshot)
	entry := windows.ProcessEntry32{Size: uint32(unsafe.Sizeof(windows.ProcessEntry32{}))}
	for err = windows.Process32First(snapshot, &entry); err == nil; err = windows.Process32Next(snapshot, &entry) {
		if file != "" && !strings.EqualFold(windows.UTF16ToString(entry.ExeFile[:]), file) {
			continue
		}
		const access = windows.SYNCHRONIZE | windows.PROCESS_TERMINATE | windows.PROCESS_QUERY_LIMITED_INFORMATION
		h, err := windows.OpenProcess(access, false, entry.ProcessID)
		if err != nil || entry.ProcessID == windows.GetCurrentProcessId() {
			scm.Process{Handle: h}.Close()
			continue // it has exited, or permission is missing
		}
		if p := (scm.Process{Handle: h}); wanted(image(p)) && !p.Ended() {
			found = append(found, p)
		} else {
			p.Close()
		}
	}
	if !errors.Is(err, windows.ERROR_NO_MORE_FILES) {
		return found, err
	}
	return found, nil
}

// EndPrograms implements hostapi.Containers.
func (c containers) EndPrograms(ctx context.Context, folder string) (ended []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	below := strings.ToLower(folder) + `\`
	left, err := openProcesses("", func(image string) bool { return strings.HasPrefix(strings.ToLower(image), below) })
	defer func() {
		for _, p := range left {
			p.Close()
		}
	}()
	for _, p := range left {
		ended = append(ended, image(p))
		err = errors.Join(err, p.End())
	}
	slices.Sort(ended)
	if err != nil {
		return ended, fmt.Errorf("ending the programs below %s: %w", folder, err)
	}
	for _, p := range left {
		for !p.Ended() {
			if err := backoff.Sleep(ctx, tick); err != nil {
				return ended, fmt.Errorf("waiting until the programs below %s have ended: %w", folder, err)
			}
		}
	}
	return ended, nil
}

// image returns the path of a process's program; empty if Windows does not return it.
func image(p scm.Process) string {
	buffer := make([]uint16, windows.MAX_LONG_PATH)
	size := uint32(len(buffer))
	if err := windows.QueryFullProcessImageName(p.Handle, 0, &buffer[0], &size); err != nil {
		return ""
	}
	return windows.UTF16ToString(buffer[:size])
}
