//go:build windows

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
)

// serveLab serves the lab's requests until the host must go down, for a reason that becomes the exit code. When the last ordinary process ends, Wine
// stops all services: this is that process.
func serveLab() error {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(guestapi.Port)))
	if err != nil {
		return fmt.Errorf("listening for the lab: %w", err)
	}
	down := make(chan guestapi.Shutdown, 1)
	mux := http.NewServeMux()
	mux.Handle(guestapi.BootPath, answer(boot))
	mux.Handle(guestapi.ExecPath, answer(execute))
	mux.Handle(guestapi.ServicesPath, answer(services))
	mux.Handle(guestapi.ServiceEditPath, answer(editService))
	mux.Handle(guestapi.RegistryGetPath, answer(getRegistry))
	mux.Handle(guestapi.RegistrySetPath, answer(setRegistry))
	var requested atomic.Bool
	mux.Handle(guestapi.ShutdownPath, answer(func(_ context.Context, s guestapi.Shutdown) (guestapi.Nothing, error) {
		if requested.Swap(true) {
			return guestapi.Nothing{}, errors.New("a system shutdown has already been scheduled") // ERROR_SHUTDOWN_IS_SCHEDULED on Windows
		}
		down <- s
		return guestapi.Nothing{}, nil
	}))
	failed := make(chan error, 1)
	go func() { failed <- http.Serve(listener, mux) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving the lab: %w", err)
	case s := <-down:
		time.Sleep(time.Duration(s.Seconds)*time.Second + 100*time.Millisecond) // after the answer was sent
		stopServices()
		if s.Reboot {
			os.Exit(guestapi.ExitReboot)
		}
		os.Exit(guestapi.ExitPowerOff)
	}
	return nil
}

// answer converts a function to a handler: JSON in, JSON out, errors as status 500 with the text.
func answer[In, Out any](do func(context.Context, In) (Out, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in In
		err := json.NewDecoder(r.Body).Decode(&in)
		var out Out
		if err == nil {
			out, err = do(r.Context(), in)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(out)
	})
}

func boot(ctx context.Context, _ guestapi.Nothing) (guestapi.Boot, error) {
	a, err := getRegistry(ctx, guestapi.RegistryName{
		Key: `HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters`, Name: "BootId"})
	return guestapi.Boot{ID: uint32(a.Value.Number)}, err
}

// startAttempts is how many times a program is started.
const startAttempts = 3

func execute(ctx context.Context, r guestapi.ExecRequest) (guestapi.ExecResult, error) {
	argv, err := syscall.UTF16PtrFromString(r.CommandLine)
	if err != nil {
		return guestapi.ExecResult{}, fmt.Errorf("encoding the command line: %w", err)
	}
	name, err := firstArgument(argv)
	if err != nil {
		return guestapi.ExecResult{}, err
	}
	for attempt := 1; ; attempt++ {
		result, err := run(ctx, name, r)
		// Rarely, a process of Wine ends before its program starts. Nothing ran, so it is safe to start it again.
		if attempt == startAttempts || !errors.Is(err, windows.ERROR_INTERNAL_ERROR) {
			return result, err
		}
	}
}

// run runs a program once.
func run(ctx context.Context, name string, r guestapi.ExecRequest) (guestapi.ExecResult, error) {
	cmd := exec.CommandContext(ctx, name)
	if cmd.Err != nil {
		return guestapi.ExecResult{}, fmt.Errorf("finding the program: %w", cmd.Err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{CmdLine: r.CommandLine}
	cmd.Dir = `C:\`
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = 2 * time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		return guestapi.ExecResult{}, fmt.Errorf("running %s: %w", name, err)
	}
	return guestapi.ExecResult{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), ExitCode: cmd.ProcessState.ExitCode()}, nil
}
