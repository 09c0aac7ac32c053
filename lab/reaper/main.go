//go:build linux

// Command reaper cleans up after the lab. For each program, folder and host, the lab starts a reaper and keeps its standard input
// open. When the lab closes it or is killed, the reaper stops or removes what it manages:
//
//	reaper run LOG PROGRAM [ARGUMENT...]      a program; its output is appended to LOG
//	reaper service DIR PROGRAM [ARGUMENT...]  a program with all processes that it starts: see service.go
//	reaper folder DIR                         a folder with its content, and the namespaces of the reaper
//	reaper host DIR                           a Windows host: see host.go
//	reaper template DIR                       the template of hosts: see template.go
//	reaper linuxnode DIR                      a Linux node: see linuxnode.go
//
// On Windows hosts, it is also the program with which Wine starts processes: see loader.go.
package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

func main() {
	if filepath.Base(os.Args[0]) == loaderName {
		runtime.LockOSThread() // namespaces belong to threads
		fmt.Fprintln(os.Stderr, "reaper:", load(os.Args[1:], os.Environ()))
		os.Exit(1)
	}
	// The kernel sends PDEATHSIG when the thread that started the child ends, so this thread must start all children.
	runtime.LockOSThread()
	// Ctrl-C in a terminal signals the whole process group, but the lab decides when to end. Signals are caught instead of ignored,
	// because children inherit ignored signals.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	var err error
	switch args := os.Args[1:]; {
	case len(args) >= 3 && args[0] == "run":
		err = run(args[1], args[2:])
	case len(args) >= 3 && args[0] == "service":
		err = runService(args[1], args[2:])
	case len(args) == 2 && args[0] == "folder":
		err = manageFolder(args[1])
	case len(args) == 2 && args[0] == "host":
		err = runHost(args[1])
	case len(args) == 2 && args[0] == "template":
		err = makeTemplate(args[1])
	case len(args) == 2 && args[0] == "linuxnode":
		err = runLinuxNode(args[1])
	case len(args) == 2 && args[0] == "linuxnode-init":
		err = initLinuxNode(args[1])
	default:
		err = fmt.Errorf("want run, service, folder, host, template or linuxnode with their arguments, got %q", args)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "reaper:", err)
		os.Exit(1)
	}
}

// commands returns the lines of standard input. The channel is closed when the lab has ended.
func commands() <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			lines <- in.Text()
		}
	}()
	return lines
}

// run runs a program until it exits. It kills the program when the lab ends.
func run(logFile string, command []string) error {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", command[0], err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ended:
		return fmt.Errorf("running %s: it exited: %s", command[0], cmd.ProcessState)
	case <-commands():
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended
		return nil
	}
}

// manageFolder removes a folder when the lab ends.
func manageFolder(dir string) error {
	<-commands()
	err := removeForGood(dir, 2*time.Second, 30*time.Second)
	if hierarchies, failure := cgroups(); failure == nil {
		removeCgroups(hierarchies, filepath.Base(dir)) // those of containers on hosts
	}
	if err != nil {
		return fmt.Errorf("removing the work folder: %w", err)
	}
	return nil
}

// removeForGood removes a folder repeatedly until it has been absent for the duration quiet, or the limit has passed. Other
// reapers are still stopping their programs meanwhile: a running program can make the removal fail, and a starting one can
// create the folder again.
func removeForGood(dir string, quiet, limit time.Duration) error {
	began := time.Now()
	for seen := began; ; time.Sleep(50 * time.Millisecond) {
		_, absent := os.Lstat(dir)
		err := os.RemoveAll(dir)
		if err != nil || absent == nil {
			seen = time.Now()
		}
		if time.Since(seen) >= quiet {
			return nil
		}
		if time.Since(began) > limit {
			return err
		}
	}
}
