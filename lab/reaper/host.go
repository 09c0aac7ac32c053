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

// A host is a Windows host, from the point of view of its first process.
type host struct {
	folder *os.Root // the lab's folder for the host, which remains accessible after /tmp is replaced
	spec   hostspec.Host
	lab    <-chan string
	// filters has the ACLs of endpoints that the kernel enforces.
	filters *filters
}

// runHost is the first process of a host, in its own PID, mount, network and UTS namespaces: when it exits, the kernel kills all
// processes of the host. It waits for the command to boot, which the lab sends after it has connected the network.
func runHost(dir string) error {
	h := host{lab: commands()}
	if err := hostspec.Read(dir, &h.spec); err != nil {
		return err
	}
	h.filters = &filters{nft: h.spec.NFT}
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
		return fmt.Errorf("installing the loader of containers' processes: %w", err)
	}
	if err := isolate(dir, h.spec.Name, h.spec.Names); err != nil {
		return err
	}
	if err := h.placeFiles(); err != nil {
		return err
	}
	if err := errors.Join(forwardPackets(), h.servePods(), h.serveDrives()); err != nil {
		return err
	}
	if h.spec.NFT != "" {
		if err := h.balanceServices(); err != nil {
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

// On rare occasions, a Wine process exits before its program starts. If the first program of a host ends within startTimeout,
// the host is turned on again.
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

// boot runs Windows until the lab ends, or until a program on the host requests a power-off or a reboot (again).
func (h host) boot() (again bool, err error) {
	name, err := h.prepareRegistry()
	if err != nil {
		return false, err
	}
	if err := syscall.Sethostname([]byte(name)); err != nil {
		return false, fmt.Errorf("setting the host name: %w", err)
	}
	if err := h.writeHosts(name); err != nil {
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
	case <-h.lab: // this is PID 1: when it exits, the kernel kills all other processes
		return false, nil
	case status := <-ended:
		h.shutDown()
		switch status.ExitStatus() {
		case guestapi.ExitReboot:
			return true, nil
		case guestapi.ExitPowerOff:
			return false, nil
		}
		return false, fmt.Errorf("%w with status %d; end of the host's console.log: %s", errGuestEnded, status.ExitStatus(), h.consoleEnd())
	}
}

// writeHosts writes /etc/hosts with the current name of the host. Wine uses the case of the name in this file.
func (h host) writeHosts(name string) error {
	names := maps.Clone(h.spec.Names)
	delete(names, h.spec.Name)
	names[name] = h.spec.Names[h.spec.Name]
	if err := h.folder.WriteFile("etc/hosts", []byte(hostsText(names)), 0o644); err != nil {
		return fmt.Errorf("writing /etc/hosts: %w", err)
	}
	return nil
}

// consoleEnd returns the last kilobyte of the output of the host's programs.
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
		return fmt.Errorf("starting Wine's server: exit status %d", status.ExitStatus())
	}
	return nil
}

// start starts a program, and reaps processes until it exits. It cannot use package os/exec, which waits only for its own children: all
// orphans of the host become children of this process.
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

// spawn starts a program. It redirects its output to a log.
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

// reapUntil reaps processes until the one with the PID has exited or, if it is 0, until all have.
func reapUntil(pid int) syscall.WaitStatus {
	for {
		var status syscall.WaitStatus
		child, err := syscall.Wait4(-1, &status, 0, nil)
		if child == pid && err == nil || err == syscall.ECHILD {
			return status
		}
	}
}

// shutDown stops Wine, which then writes the registry, and afterwards all other processes.
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
