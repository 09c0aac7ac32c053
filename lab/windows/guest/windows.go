//go:build windows

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"
)

// firstArgument returns the program of a command line.
func firstArgument(commandLine *uint16) (string, error) {
	args, err := windows.DecomposeCommandLine(windows.UTF16PtrToString(commandLine))
	if err != nil || len(args) == 0 {
		return "", fmt.Errorf("splitting the command line: %w", errors.Join(err, errors.New("no program")))
	}
	return args[0], nil
}

func root(key string) (registry.Key, string, error) {
	name, rest, _ := strings.Cut(key, `\`)
	switch name {
	case "HKLM":
		return registry.LOCAL_MACHINE, rest, nil
	case "HKCU":
		return registry.CURRENT_USER, rest, nil
	}
	return 0, "", fmt.Errorf("parsing registry key %q: want HKLM\\... or HKCU\\...", key)
}

func getRegistry(_ context.Context, n guestapi.RegistryName) (guestapi.RegistryAnswer, error) {
	var a guestapi.RegistryAnswer
	hive, path, err := root(n.Key)
	if err != nil {
		return a, err
	}
	key, err := registry.OpenKey(hive, path, registry.QUERY_VALUE)
	if errors.Is(err, registry.ErrNotExist) {
		return a, nil
	}
	if err != nil {
		return a, fmt.Errorf("opening %s: %w", n.Key, err)
	}
	defer key.Close()
	_, kind, err := key.GetValue(n.Name, nil)
	if errors.Is(err, registry.ErrNotExist) {
		return a, nil
	}
	if err == nil {
		a.Found = true
		a.Value, err = value(key, n.Name, kind)
	}
	if err != nil {
		return a, fmt.Errorf("reading %s %s: %w", n.Key, n.Name, err)
	}
	return a, nil
}

func value(key registry.Key, name string, kind uint32) (v guestapi.RegistryValue, err error) {
	switch kind {
	case registry.SZ, registry.EXPAND_SZ:
		v.Type = map[uint32]string{registry.SZ: "REG_SZ", registry.EXPAND_SZ: "REG_EXPAND_SZ"}[kind]
		v.Text, _, err = key.GetStringValue(name)
	case registry.MULTI_SZ:
		v.Type = "REG_MULTI_SZ"
		v.Texts, _, err = key.GetStringsValue(name)
	case registry.DWORD:
		v.Type = "REG_DWORD"
		v.Number, _, err = key.GetIntegerValue(name)
	default:
		err = fmt.Errorf("type %d is not supported", kind)
	}
	return v, err
}

func setRegistry(_ context.Context, e guestapi.RegistryEntry) (guestapi.Nothing, error) {
	hive, path, err := root(e.Key)
	if err != nil {
		return guestapi.Nothing{}, err
	}
	key, _, err := registry.CreateKey(hive, path, registry.SET_VALUE)
	if err != nil {
		return guestapi.Nothing{}, fmt.Errorf("opening %s: %w", e.Key, err)
	}
	defer key.Close()
	v := e.Value
	switch v.Type {
	case "REG_SZ":
		err = key.SetStringValue(e.Name, v.Text)
	case "REG_DWORD":
		err = key.SetDWordValue(e.Name, uint32(v.Number))
	default:
		err = fmt.Errorf("type %q is not supported", v.Type)
	}
	if err != nil {
		return guestapi.Nothing{}, fmt.Errorf("writing %s %s: %w", e.Key, e.Name, err)
	}
	return guestapi.Nothing{}, nil
}

func services(context.Context, guestapi.Nothing) ([]guestapi.Service, error) {
	m, err := mgr.Connect()
	if err != nil {
		return nil, fmt.Errorf("connecting to the service manager: %w", err)
	}
	defer m.Disconnect()
	names, err := m.ListServices()
	if err != nil {
		return nil, fmt.Errorf("listing services: %w", err)
	}
	var list []guestapi.Service
	for _, name := range names {
		s, err := m.OpenService(name)
		if err != nil {
			continue // deleted meanwhile
		}
		status, err := s.Query()
		_ = s.Close()
		if err != nil {
			continue
		}
		path, _ := getRegistry(context.Background(), guestapi.RegistryName{
			Key: `HKLM\SYSTEM\CurrentControlSet\Services\` + name, Name: "ImagePath"})
		list = append(list, guestapi.Service{Name: name, State: state(status.State), PID: status.ProcessId, Command: path.Value.Text})
	}
	return list, nil
}

func editService(ctx context.Context, e guestapi.ServiceEdit) (guestapi.Nothing, error) {
	m, err := mgr.Connect()
	if err != nil {
		return guestapi.Nothing{}, fmt.Errorf("connecting to the service manager: %w", err)
	}
	defer m.Disconnect()
	s, err := m.OpenService(e.Name)
	if err != nil {
		return guestapi.Nothing{}, fmt.Errorf("opening service %s: %w", e.Name, err)
	}
	defer s.Close()
	if e.DependsOn == nil { // Wine's service manager removes those that are not given
		before, err := getRegistry(ctx, guestapi.RegistryName{Key: `HKLM\SYSTEM\CurrentControlSet\Services\` + e.Name, Name: "DependOnService"})
		if err != nil {
			return guestapi.Nothing{}, err
		}
		e.DependsOn = before.Value.Texts
	}
	var command *uint16
	if e.Command != "" {
		command = windows.StringToUTF16Ptr(e.Command)
	}
	start := uint32(windows.SERVICE_NO_CHANGE)
	if e.Disabled {
		start = windows.SERVICE_DISABLED
	}
	dependsOn := utf16.Encode([]rune(strings.Join(e.DependsOn, "\x00") + "\x00\x00"))
	const keep = windows.SERVICE_NO_CHANGE
	err = windows.ChangeServiceConfig(s.Handle, keep, start, keep, command, nil, nil, &dependsOn[0], nil, nil, nil)
	if err != nil {
		return guestapi.Nothing{}, fmt.Errorf("editing service %s: %w", e.Name, err)
	}
	return guestapi.Nothing{}, nil
}

func state(s svc.State) string {
	names := []string{"", "stopped", "start pending", "stop pending", "running", "continue pending", "pause pending", "paused"}
	if int(s) < len(names) && s > 0 {
		return names[s]
	}
	return fmt.Sprintf("state %d", s)
}

// stopServices stops services like Windows before it shuts down: it waits for five seconds at most. It sends control STOP,
// because only the system can send SHUTDOWN.
func stopServices() {
	m, err := mgr.Connect()
	if err != nil {
		return
	}
	defer m.Disconnect()
	names, err := m.ListServices()
	if err != nil {
		return
	}
	var stopping []*mgr.Service
	for _, name := range names {
		s, err := m.OpenService(name)
		if err != nil {
			continue
		}
		defer s.Close()
		if status, err := s.Query(); err == nil && status.State == svc.Running && status.Accepts&svc.AcceptShutdown != 0 {
			if _, err := s.Control(svc.Stop); err == nil {
				stopping = append(stopping, s)
			}
		}
	}
	for end := time.Now().Add(5 * time.Second); len(stopping) > 0 && time.Now().Before(end); {
		if status, err := stopping[0].Query(); err != nil || status.State == svc.Stopped {
			stopping = stopping[1:]
			continue
		}
		time.Sleep(50 * time.Millisecond)
	}
}
