//go:build linux

package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"syscall"
	"time"

	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
	"github.com/windows-machine-config/wmco/lab/windows/hostspec"
)

// A host is a Windows host, for its first process.
type host struct {
	folder *os.Root // the lab's folder for the host; still reachable here when /tmp is another
	spec   hostspec.Host
	lab    <-chan string
}

// runHost is the first process of a host, in its own PID, mount, network and UTS namespaces: with it, every process of the host
// ends. It waits for the order to boot, which comes when the lab has connected the network.
func runHost(dir string) error {
	h := host{lab: orders()}
	if err := hostspec.Read(dir, &h.spec); err != nil {
		return err
	}
	var err error
	if h.folder, err = os.OpenRoot(dir); err != nil {
		return fmt.Errorf("opening the host's folder: %w", err)
	}
	if _, ok := <-h.lab; !ok {
		return nil
	}
	if err := mountTemplate(h.spec.Template, dir); err != nil {
		return err
	}
	if err := placeLoader(dir, h.spec.Wine); err != nil {
		return fmt.Errorf("placing the loader of containers' processes: %w", err)
	}
	if err := isolate(dir, h.spec.Name, h.spec.Names); err != nil {
		return err
	}
	if err := h.placeFiles(); err != nil {
		return err
	}
	if err := errors.Join(forwardPackets(), servePods(), h.serveDrives()); err != nil {
		return err
	}
	if h.spec.NFT != "" {
		if err := h.balance(); err != nil {
			return err
		}
	}
	for again, attempt := true, 1; again; attempt++ {
		began := time.Now()
		again, err = h.boot()
		if errors.Is(err, errGuestEnded) && time.Since(began) < startTimeout && attempt < startAttempts {
			again = true
			continue
		}
		if err != nil {
			return err
		}
		attempt = 0
	}
	return nil
}

// Seldom, a process of Wine ends before its program starts: a host whose first program ends so soon is turned on again, as a person would do.
const (
	startAttempts = 3
	startTimeout  = 10 * time.Second
)

// errGuestEnded means that the guest ended without a request to turn the host off.
var errGuestEnded = errors.New("the guest ended")

// placeFiles writes the initial files of the host.
func (h host) placeFiles() error {
	if h.booted() {
		return nil
	}
	for path, content := range h.spec.Files {
		if err := place(hostspec.OnDrive(driveC, path), content); err != nil {
			return err
		}
	}
	return nil
}

// boot runs Windows until the lab is gone, or a program of the host requests power off or a reboot (again).
func (h host) boot() (again bool, err error) {
	name, err := h.prepareRegistry()
	if err != nil {
		return false, err
	}
	if err := syscall.Sethostname([]byte(name)); err != nil {
		return false, fmt.Errorf("setting the host name: %w", err)
	}
	if err := h.resolveOwn(name); err != nil {
		return false, err
	}
	if err := h.forgetPods(); err != nil {
		return false, err
	}
	if err := h.startServer(); err != nil {
		return false, err
	}
	ended, err := h.start(wineEnvironment(), h.spec.Wine.Loader, guestapi.GuestProgram, "serve")
	if err != nil {
		return false, err
	}
	select {
	case <-h.lab: // this is PID 1: the kernel kills all others with it
		return false, nil
	case status := <-ended:
		h.shutDown()
		switch status.ExitStatus() {
		case guestapi.ExitReboot:
			return true, nil
		case guestapi.ExitPowerOff:
			return false, nil
		}
		return false, fmt.Errorf("%w with status %d; console.log of the host ends with: %s", errGuestEnded, status.ExitStatus(), h.consoleEnd())
	}
}

// resolveOwn makes the host resolve the name that it has now. Wine takes the capitals of the name from there.
func (h host) resolveOwn(name string) error {
	names := maps.Clone(h.spec.Names)
	delete(names, h.spec.Name)
	names[name] = h.spec.Names[h.spec.Name]
	if err := h.folder.WriteFile("etc/hosts", []byte(hostsText(names)), 0o644); err != nil {
		return fmt.Errorf("writing the names that the host resolves: %w", err)
	}
	return nil
}

// consoleEnd returns the last kilobyte of what the programs of the host wrote.
func (h host) consoleEnd() string {
	text, err := h.folder.ReadFile("console.log")
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-1024):])
}

// startServer starts Wine's server, which creates the sockets of all programs. It runs until shutDown.
func (h host) startServer() error {
	ended, err := h.start(append(wineEnvironment(), "LD_PRELOAD="+h.spec.Wine.Preload), h.spec.Wine.Server, "-p")
	if err != nil {
		return err
	}
	if status := <-ended; status != 0 {
		return fmt.Errorf("starting Wine's server: it ended with status %d", status.ExitStatus())
	}
	return nil
}

// start starts a program and reaps processes until it exits. All orphans of the host become children of this process, so that
// package os/exec, which waits only for its own, cannot be used.
func (h host) start(environment []string, program string, args ...string) (<-chan syscall.WaitStatus, error) {
	console, err := h.folder.OpenFile("console.log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the console log: %w", err)
	}
	defer console.Close()
	pid, err := spawn(driveC, environment, console, nil, append([]string{program}, args...))
	if err != nil {
		return nil, err
	}
	ended := make(chan syscall.WaitStatus, 1)
	go func() { ended <- reapUntil(pid) }()
	return ended, nil
}

// spawn starts a program whose output goes to a log.
func spawn(dir string, environment []string, log *os.File, attributes *syscall.SysProcAttr, command []string) (pid int, err error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, fmt.Errorf("opening the null device: %w", err)
	}
	defer null.Close()
	pid, err = syscall.ForkExec(command[0], command, &syscall.ProcAttr{
		Dir: dir, Env: environment, Files: []uintptr{null.Fd(), log.Fd(), log.Fd()}, Sys: attributes,
	})
	if err != nil {
		return 0, fmt.Errorf("starting %q: %w", command, err)
	}
	return pid, nil
}

// reapUntil reaps processes until one of them has exited, or all have (pid 0).
func reapUntil(pid int) syscall.WaitStatus {
	for {
		var status syscall.WaitStatus
		child, err := syscall.Wait4(-1, &status, 0, nil)
		if child == pid && err == nil || err == syscall.ECHILD {
			return status
		}
	}
}

// shutDown ends Wine, which writes the registry, and then all other processes.
func (h host) shutDown() {
	if ended, err := h.start(wineEnvironment(), h.spec.Wine.Server, "-k"); err == nil {
		<-ended
	}
	all := make(chan struct{})
	go func() {
		reapUntil(0)
		close(all)
	}()
	select {
	case <-all:
	case <-time.After(5 * time.Second):
		_ = syscall.Kill(-1, syscall.SIGKILL) // all but this process
		<-all
	}
}
