//go:build linux

package lab

import "context"

func csiProgram() program {
	return program{pkg: "csi", about: "building the program that asks csi-proxy", env: []string{"GOOS=windows", "GOARCH=amd64"}}
}

// MakeFolderByCSIProxy creates a folder by the host's csi-proxy, as the node plugin of a CSI driver does, and returns whether it exists afterwards.
func (h *Host) MakeFolderByCSIProxy(ctx context.Context, path string) (exists bool, err error) {
	if _, err := h.runProgram(ctx, csiProgram(), "mkdir "+path); err != nil {
		return false, err
	}
	answer, err := h.runProgram(ctx, csiProgram(), "exists "+path)
	return answer == "true", err
}
