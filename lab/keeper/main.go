//go:build linux

// Command keeper stands between the lab and everything the lab makes. Each keeper reads
// its standard input, which the lab holds open; when that ends, because the lab closed
// it or because the lab's process was killed, the keeper takes down what it keeps.
//
//	keeper run LOG PROGRAM [ARGUMENT...]      a program, its output appended to LOG
//	keeper service DIR PROGRAM [ARGUMENT...]  the same with all that the program starts: see service.go
//	keeper folder DIR                         a folder with all that is in it, and the namespaces it was started in
//	keeper host DIR                           a Windows host: see host.go
//	keeper template DIR                       what hosts are copied from: see template.go
package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

func main() {
	// PDEATHSIG is sent when the thread that started the child ends: children are started from this one.
	runtime.LockOSThread()
	// A Ctrl-C in a terminal reaches the whole process group. The lab decides what it means. (Ignoring the
	// signals instead would be inherited by the programs kept.)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	var err error
	switch args := os.Args[1:]; {
	case len(args) >= 3 && args[0] == "run":
		err = run(args[1], args[2:])
	case len(args) >= 3 && args[0] == "service":
		err = runService(args[1], args[2:])
	case len(args) == 2 && args[0] == "folder":
		err = removeAtEnd(args[1])
	case len(args) == 2 && args[0] == "host":
		err = runHost(args[1])
	case len(args) == 2 && args[0] == "template":
		err = makeTemplate(args[1])
	default:
		err = fmt.Errorf("want run, service, folder, host or template with their arguments, got %q", args)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "keeper:", err)
		os.Exit(1)
	}
}

// orders returns the lines of standard input. The channel is closed when the lab is gone.
func orders() <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			lines <- in.Text()
		}
	}()
	return lines
}

// run keeps one program. It kills it when the lab is gone, and ends with it.
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
	case err := <-ended:
		return fmt.Errorf("keeping %s: it ended by itself: %v", command[0], err)
	case <-orders():
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended
		return nil
	}
}

// removeAtEnd removes a folder when the lab is gone. Whoever still writes there is being taken down at the same
// moment by a keeper of its own, so it tries for a while.
func removeAtEnd(dir string) error {
	<-orders()
	var err error
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
	}
	return fmt.Errorf("removing the work folder: %w", err)
}
