//go:build windows

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/testing/sshserver"
	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
	"github.com/windows-machine-config/wmco/lab/windows/sshd"
	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

// startSSH starts the service sshd.
func startSSH() (stop func(), err error) {
	listener, server, err := openSSH()
	if err != nil {
		return nil, errors.Join(err, os.WriteFile(guestapi.SSHDLog, []byte(err.Error()), 0o644))
	}
	ctx, end := context.WithCancel(context.Background())
	go server.Serve(ctx, listener)
	return func() {
		end()
		_ = listener.Close()
	}, nil
}

func openSSH() (net.Listener, *sshserver.Server, error) {
	log, err := os.OpenFile(guestapi.SSHDLog, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the log: %w", err)
	}
	user, home, err := logIn()
	if err != nil {
		return nil, nil, err
	}
	server, err := sshd.New(sshd.Options{
		HostKeyFile: guestapi.HostKeyFile, User: user, AuthorizedKeysFile: guestapi.AuthorizedKeysFile, Home: home,
		QuirksFile: guestapi.SSHQuirksFile, CountersFile: guestapi.StatsFile, Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		return nil, nil, err
	}
	address, err := os.ReadFile(guestapi.SSHListenFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("reading the address to listen on: %w", err)
	}
	listener, err := net.Listen("tcp", cmp.Or(string(address), ":22"))
	if err != nil {
		return nil, nil, fmt.Errorf("listening: %w", err)
	}
	return listener, server, nil
}

// logIn sets the environment of the user who can log in, for this process and its children.
func logIn() (user, home string, err error) {
	name, err := os.ReadFile(guestapi.UserFile)
	if err != nil {
		return "", "", fmt.Errorf("reading the user's name: %w", err)
	}
	user = strings.TrimSpace(string(name))
	home = `C:\users\` + user
	if err := os.MkdirAll(home, 0o700); err != nil {
		return "", "", fmt.Errorf("creating the user's home: %w", err)
	}
	for name, value := range map[string]string{"USERNAME": user, "USERPROFILE": home, "HOMEDRIVE": "C:", "HOMEPATH": home[2:]} {
		if err := os.Setenv(name, value); err != nil {
			return "", "", fmt.Errorf("setting %s: %w", name, err)
		}
	}
	return user, home, nil
}

// shutdown supports shutdown.exe /r and /s with /t SECONDS (30 by default, as on Windows); it ignores other switches.
func shutdown(args []string) error {
	request := guestapi.Shutdown{Seconds: 30}
	var requested bool
	for i := 0; i < len(args); i++ {
		switch strings.ToLower(strings.Replace(args[i], "-", "/", 1)) {
		case "/r":
			request.Reboot, requested = true, true
		case "/s":
			requested = true
		case "/t":
			i++
			if i == len(args) {
				return errors.New("/t needs a number of seconds")
			}
			seconds, err := strconv.Atoi(args[i])
			if err != nil {
				return fmt.Errorf("parsing /t: %w", err)
			}
			request.Seconds = seconds
		}
	}
	if !requested {
		return errors.New("want /r or /s")
	}
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encoding the request: %w", err)
	}
	client := http.Client{Timeout: 10 * time.Second}
	answer, err := client.Post("http://127.0.0.1:"+strconv.Itoa(guestapi.Port)+guestapi.ShutdownPath, "application/json", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("requesting a shutdown: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body)
		return errors.New(strings.TrimSpace(string(text)))
	}
	return nil
}

// linkQuestion is the command that kubelets run in PowerShell for each path of a subPath (pkg/volume/util/subpath), to get the kind of link, if any.
const linkQuestion = "$ErrorActionPreference = 'Stop'; (Get-Item -Force -LiteralPath $env:linkpath).LinkType"

// powerShell records the start and fails, except for that question: the product must not depend on PowerShell. Wine has no links.
func powerShell(args []string) error {
	if slices.Equal(args, []string{"/c", linkQuestion}) {
		_, err := os.Lstat(os.Getenv("linkpath"))
		return err
	}
	line, err := json.Marshal(windows.UTF16PtrToString(windows.GetCommandLine()))
	if err != nil {
		return fmt.Errorf("encoding the command line: %w", err)
	}
	f, err := os.OpenFile(guestapi.PowerShellLog, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening the record: %w", err)
	}
	defer f.Close()
	if _, err := f.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("writing the record: %w", err)
	}
	return errors.New("there is no PowerShell in the lab")
}

// setup reads registry entries as JSON and writes them; then it sets up the services.
func setup(in io.Reader) error {
	var entries []guestapi.RegistryEntry
	if err := json.NewDecoder(in).Decode(&entries); err != nil {
		return fmt.Errorf("decoding the registry entries: %w", err)
	}
	for _, e := range entries {
		if _, err := setRegistry(nil, e); err != nil {
			return err
		}
	}
	// A version in Wine's own settings would override the entries.
	if err := registry.DeleteKey(registry.CURRENT_USER, `Software\Wine\Version`); err != nil && !errors.Is(err, registry.ErrNotExist) {
		return fmt.Errorf("removing Wine's own version: %w", err)
	}
	return createServices()
}
