//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// csiOnHost is the path of the program csi on a host.
const csiOnHost = `C:\lab\csi.exe`

func csiProgram() program {
	return program{pkg: "csi", about: "building the program that asks csi-proxy", env: []string{"GOOS=windows", "GOARCH=amd64"}}
}

// MakeFolderByCSIProxy asks the host's csi-proxy for a folder, as the node plugin of a CSI driver does, and whether it exists then.
func (h *Host) MakeFolderByCSIProxy(ctx context.Context, path string) (exists bool, err error) {
	if err := h.placeProgram(ctx, csiProgram(), csiOnHost); err != nil {
		return false, fmt.Errorf("copying the program that asks csi-proxy: %w", err)
	}
	if _, err := h.csi(ctx, "mkdir", path); err != nil {
		return false, err
	}
	answer, err := h.csi(ctx, "exists", path)
	return answer == "true", err
}

func (h *Host) csi(ctx context.Context, verb, path string) (string, error) {
	result, err := h.Exec(ctx, csiOnHost+" "+verb+" "+path)
	if err == nil && result.ExitCode != 0 {
		err = errors.New(strings.TrimSpace(string(result.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("csi-proxy of %s: %s %s: %w", h.name, verb, path, err)
	}
	return strings.TrimSpace(string(result.Stdout)), nil
}
