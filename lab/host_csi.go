//go:build linux

package lab

import (
	"context"
	"fmt"
)

func csiProgram() program {
	return program{pkg: "csi", about: "building the program that asks csi-proxy", env: []string{"GOOS=windows", "GOARCH=amd64"}}
}

// MakeFolderByCSIProxy creates a folder by the host's csi-proxy, as the node plugin of a CSI driver does, and returns whether it exists afterwards.
func (h *Host) MakeFolderByCSIProxy(ctx context.Context, path string) (exists bool, err error) {
	if _, err := h.csi(ctx, "mkdir", path); err != nil {
		return false, err
	}
	answer, err := h.csi(ctx, "exists", path)
	return answer == "true", err
}

func (h *Host) csi(ctx context.Context, verb, path string) (string, error) {
	output, err := h.runProgram(ctx, csiProgram(), verb+" "+path)
	if err != nil {
		return "", fmt.Errorf("csi-proxy of %s: %s %s: %w", h.name, verb, path, err)
	}
	return output, nil
}
