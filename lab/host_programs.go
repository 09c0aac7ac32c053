//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

func criProgram() program {
	return program{pkg: "windows/cri", about: "building the program that pulls images", env: []string{"GOOS=windows", "GOARCH=amd64"}}
}

// Pull has the host's containerd pull and unpack an image like its kubelet: over CRI, with the credentials from the
// kubelet's config.json. It returns the image's ID.
func (h *Host) Pull(ctx context.Context, image string) (id string, err error) {
	return h.runProgram(ctx, criProgram(), "pull "+image)
}

// RemoveImage has the host's containerd remove an image.
func (h *Host) RemoveImage(ctx context.Context, image string) error {
	_, err := h.runProgram(ctx, criProgram(), "remove "+image)
	return err
}

// IsPinned reports whether the host's containerd protects an image from removal by the kubelet.
func (h *Host) IsPinned(ctx context.Context, image string) (bool, error) {
	status, err := h.runProgram(ctx, criProgram(), "status "+image)
	return status == "pinned=true", err
}

func csiProgram() program {
	return program{pkg: "windows/csi", about: "building the client of csi-proxy", env: []string{"GOOS=windows", "GOARCH=amd64"}}
}

// CreateFolderWithCSIProxy creates a folder with the host's csi-proxy, as the node plugin of a CSI driver does, and returns whether it
// exists afterwards.
func (h *Host) CreateFolderWithCSIProxy(ctx context.Context, path string) (exists bool, err error) {
	if _, err := h.runProgram(ctx, csiProgram(), "mkdir "+path); err != nil {
		return false, err
	}
	output, err := h.runProgram(ctx, csiProgram(), "exists "+path)
	return output == "true", err
}

func computeProgram() program {
	return program{
		pkg: "windows/containers/compute", about: "building the program that lists containers", env: []string{"GOOS=windows", "GOARCH=amd64"},
	}
}

// Containers returns the IDs of all containers of Windows' container service, including the sandbox containers of pods.
func (h *Host) Containers(ctx context.Context) ([]string, error) {
	out, err := h.runProgram(ctx, computeProgram(), "list")
	return strings.Fields(out), err
}

// EndContainer terminates a container without containerd.
func (h *Host) EndContainer(ctx context.Context, id string) error {
	_, err := h.runProgram(ctx, computeProgram(), "end "+id)
	return err
}

// runProgram runs a program of the lab on the host, and returns its output. The first run copies it there.
func (h *Host) runProgram(ctx context.Context, p program, arguments string) (string, error) {
	onHost := `C:\lab\` + path.Base(p.pkg) + ".exe"
	if err := h.placeProgram(ctx, p, onHost); err != nil {
		return "", fmt.Errorf("copying program %s: %w", p.pkg, err)
	}
	result, err := h.Exec(ctx, onHost+" "+arguments)
	if err == nil && result.ExitCode != 0 {
		err = errors.New(strings.TrimSpace(string(result.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("running %s %s on %s: %w", onHost, arguments, h.name, err)
	}
	return strings.TrimSpace(string(result.Stdout)), nil
}

// placeProgram copies a program of the lab to the host unless it exists there.
func (h *Host) placeProgram(ctx context.Context, p program, onHost string) error {
	if _, err := h.Stat(onHost); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	content, err := h.lab.cache.content(ctx, p)
	if err != nil {
		return err
	}
	return h.WriteFile(onHost, []byte(content))
}
