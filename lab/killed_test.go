//go:build linux

package lab

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// traces is what an open lab creates on this machine.
type traces struct {
	Folders   []string
	Processes []int
	Link      string
}

func (l *Lab) traces() traces {
	leftovers := traces{Folders: []string{l.ControlPlane.folder.Path, l.dir}, Link: fmt.Sprintf("wmco%d", l.network.number)}
	leftovers.Processes = append(leftovers.Processes, l.ControlPlane.folder.reaper.cmd.Process.Pid, l.network.anchor.cmd.Process.Pid)
	for _, r := range l.ControlPlane.running {
		leftovers.Processes = append(leftovers.Processes, r.cmd.Process.Pid)
	}
	for _, s := range l.services {
		leftovers.Folders = append(leftovers.Folders, s.folder.Path)
		leftovers.Processes = append(leftovers.Processes, s.folder.reaper.cmd.Process.Pid)
		leftovers.Processes = append(leftovers.Processes, family(s.running.cmd.Process.Pid)...)
	}
	for _, h := range l.hosts {
		leftovers.Processes = append(leftovers.Processes, h.reaper.cmd.Process.Pid)
	}
	return leftovers
}

// family returns a process with its descendants.
func family(pid int) []int {
	all := []int{pid}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		for _, word := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				all = append(all, family(child)...)
			}
		}
	}
	return all
}

// remaining returns the first trace that still exists, or "" if there is none.
func (tr traces) remaining() string {
	for _, dir := range tr.Folders {
		if _, err := os.Stat(dir); err == nil {
			return "folder " + dir
		}
	}
	if _, err := net.InterfaceByName(tr.Link); err == nil {
		return "link " + tr.Link
	}
	processes, _ := os.ReadDir("/proc")
	for _, p := range processes {
		pid, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		line, _ := os.ReadFile("/proc/" + p.Name() + "/cmdline")
		usesFolder := slices.ContainsFunc(tr.Folders, func(dir string) bool { return bytes.Contains(line, []byte(dir)) })
		if usesFolder || slices.Contains(tr.Processes, pid) {
			return fmt.Sprintf("process %d: %q", pid, line)
		}
	}
	return ""
}

// startAll starts one of everything that this machine can run.
func startAll(t *testing.T) *Lab {
	t.Helper()
	l := Start(t, Options{Hosts: []string{"win-1"}})
	if errors.Join(CanRunRegistries(), CanRunForwardProxy()) == nil {
		startServices(t, l)
	}
	return l
}

func TestCloseRemovesEverything(t *testing.T) {
	l := startAll(t)
	leftovers := l.traces()
	if leftovers.remaining() == "" {
		t.Fatal("an open lab has no traces")
	}
	l.Close()
	waitUntil(t, "Close removes all traces", leftovers.remaining)
}

// childVariable marks the child process of TestKilledLabIsRemoved.
const childVariable = "WMCO_LAB_KILLED_CHILD"

func TestKilledLabIsRemoved(t *testing.T) {
	if err := CanRunWindows(); err != nil {
		t.Skip(err)
	}
	if os.Getenv(childVariable) != "" {
		l := startAll(t)
		must(t, json.NewEncoder(os.Stdout).Encode(l.traces()))
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	child := exec.Command(os.Args[0], "-test.run=^TestKilledLabIsRemoved$")
	child.Env = append(os.Environ(), childVariable+"=1")
	child.Stderr = os.Stderr
	stdin, err := child.StdinPipe()
	must(t, err)
	defer stdin.Close()
	stdout, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	var leftovers traces
	for in := bufio.NewScanner(stdout); leftovers.Link == "" && in.Scan(); {
		_ = json.Unmarshal(in.Bytes(), &leftovers)
	}
	must(t, child.Process.Kill())
	_ = child.Wait()
	if leftovers.Link == "" {
		t.Fatal("the child opened no lab")
	}
	waitUntil(t, "all traces are removed after a kill", leftovers.remaining)
}
