//go:build windows

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// logFolder is where containerd writes the logs of containers that this program starts.
const logFolder = `C:\lab\cri-logs`

// start runs a command in a container of a new sandbox, as the kubelet does, and prints how many seconds passed until the container wrote its first
// line.
func start(ctx context.Context, client cri.RuntimeServiceClient, image string, command []string) (err error) {
	name := fmt.Sprintf("plain-%d", time.Now().UnixNano())
	sandbox := &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: name, Uid: name, Namespace: "lab"},
		Hostname:     name,
		LogDirectory: filepath.Join(logFolder, name),
		Windows:      &cri.WindowsPodSandboxConfig{},
	}
	if err := os.MkdirAll(sandbox.LogDirectory, 0o755); err != nil {
		return err
	}
	began := time.Now()
	pod, err := client.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: sandbox})
	if err != nil {
		return fmt.Errorf("running the sandbox: %w", err)
	}
	defer func() {
		_, stopped := client.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: pod.PodSandboxId})
		_, removed := client.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: pod.PodSandboxId})
		err = errors.Join(err, stopped, removed)
	}()
	config := &cri.ContainerConfig{
		Metadata: &cri.ContainerMetadata{Name: "main"}, Image: &cri.ImageSpec{Image: image}, Command: command, LogPath: "main.log",
		Windows: &cri.WindowsContainerConfig{},
	}
	created, err := client.CreateContainer(ctx, &cri.CreateContainerRequest{PodSandboxId: pod.PodSandboxId, Config: config, SandboxConfig: sandbox})
	if err != nil {
		return fmt.Errorf("creating the container: %w", err)
	}
	if _, err := client.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: created.ContainerId}); err != nil {
		return fmt.Errorf("starting the container: %w", err)
	}
	wrote, err := firstLine(ctx, filepath.Join(sandbox.LogDirectory, config.LogPath))
	if err == nil {
		fmt.Printf("%.3f\n", wrote.Sub(began).Seconds())
	}
	return err
}

// firstLine waits for the first line of a log, and returns its time (the format of CRI).
func firstLine(ctx context.Context, path string) (time.Time, error) {
	for {
		text, err := os.ReadFile(path)
		if stamp, _, found := strings.Cut(string(text), " "); found {
			return time.Parse(time.RFC3339Nano, stamp)
		}
		select {
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("waiting for the first line of the container: %w", errors.Join(ctx.Err(), err))
		case <-time.After(20 * time.Millisecond):
		}
	}
}
