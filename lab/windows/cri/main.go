//go:build windows

// Command cri sends requests to the container runtime of a Windows host as its kubelet does: over CRI, and with the credentials
// that the kubelet finds for an image.
//
//	cri pull IMAGE    pulls and unpacks an image, and prints its ID
//	cri remove IMAGE  removes it
//	cri status IMAGE  prints whether it is pinned
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"github.com/Microsoft/go-winio"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubernetes/pkg/credentialprovider"
)

const (
	pipe = `\\.\pipe\containerd-containerd`
	// kubeletConfig is the file of the kubelet's credentials.
	kubeletConfig = `C:\var\lib\kubelet\config.json`
	timeout       = time.Minute
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cri:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("want pull, remove or status and an image, got %q", args)
	}
	conn, err := grpc.NewClient("passthrough:"+pipe, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)), // it may be starting
		grpc.WithContextDialer(func(ctx context.Context, path string) (net.Conn, error) { return winio.DialPipeContext(ctx, path) }))
	if err != nil {
		return fmt.Errorf("opening %s: %w", pipe, err)
	}
	defer conn.Close()
	client, spec := cri.NewImageServiceClient(conn), &cri.ImageSpec{Image: args[1]}
	switch args[0] {
	case "pull":
		return pull(ctx, client, spec)
	case "status":
		answer, err := client.ImageStatus(ctx, &cri.ImageStatusRequest{Image: spec})
		if err != nil {
			return err
		}
		fmt.Printf("pinned=%v", answer.GetImage().GetPinned())
		return nil
	case "remove":
		_, err := client.RemoveImage(ctx, &cri.RemoveImageRequest{Image: spec})
		return err
	}
	return fmt.Errorf("want pull, remove or status, got %s", args[0])
}

// pull tries all credentials in turn, as the kubelet does (pkg/kubelet/kuberuntime/kuberuntime_image.go).
func pull(ctx context.Context, client cri.ImageServiceClient, spec *cri.ImageSpec) error {
	config, err := credentialprovider.ReadSpecificDockerConfigJSONFile(kubeletConfig)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the kubelet's credentials: %w", err)
	}
	var keyring credentialprovider.BasicDockerKeyring
	keyring.Add(nil, config)
	credentials, found := keyring.Lookup(repository(spec.Image))
	if !found {
		credentials = make([]credentialprovider.TrackedAuthConfig, 1) // none
	}
	var failures error
	for _, c := range credentials {
		auth := &cri.AuthConfig{Username: c.Username, Password: c.Password, Auth: c.Auth, ServerAddress: c.ServerAddress, IdentityToken: c.IdentityToken}
		answer, err := client.PullImage(ctx, &cri.PullImageRequest{Image: spec, Auth: auth})
		if err == nil {
			fmt.Println(answer.ImageRef)
			return nil
		}
		failures = errors.Join(failures, err)
	}
	return failures
}

// repository returns the name of an image without tag and digest.
func repository(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if colon := strings.LastIndex(image, ":"); colon > strings.LastIndex(image, "/") {
		return image[:colon]
	}
	return image
}
