package network

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/windows"
)

// portsTimeout limits how long netsh.exe may take.
const portsTimeout = 15 * time.Second

// Ports returns the dynamic range of TCP over IPv4 and the excluded ranges. No documented call of Windows returns either. Only the numbers in the
// output of netsh.exe are used, because its words are in the language of Windows.
func Ports(ctx context.Context) (dynamic PortRange, excluded []PortRange, err error) {
	ctx, cancel := context.WithTimeout(ctx, portsTimeout)
	defer cancel()
	system, err := windows.GetSystemDirectory()
	if err != nil {
		return PortRange{}, nil, err
	}
	netsh := func(what string) (string, error) {
		text, err := runProgram(ctx, filepath.Join(system, "netsh.exe"), "interface", "ipv4", "show", what, "tcp")
		if err != nil {
			return "", fmt.Errorf("netsh interface ipv4 show %s tcp: %w", what, err)
		}
		return text, nil
	}
	text, err := netsh("dynamicport")
	if err != nil {
		return PortRange{}, nil, err
	}
	dynamic, ok := parseDynamic(text)
	if !ok {
		return PortRange{}, nil, errors.New("netsh interface ipv4 show dynamicport tcp: its output has no range of ports")
	}
	if text, err = netsh("excludedportrange"); err != nil {
		return dynamic, nil, err
	}
	return dynamic, parseExcluded(text), nil
}
