//go:build windows

// Command csi sends requests to the csi-proxy of a Windows host as the node plugin of a CSI driver does, with the client of csi-proxy.
//
//	csi mkdir PATH   creates a folder
//	csi exists PATH  prints whether a path exists
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	api "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	client "github.com/kubernetes-csi/csi-proxy/client/groups/filesystem/v1"
)

const timeout = time.Minute

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "csi:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("want mkdir or exists and a path, got %q", args)
	}
	files, err := client.NewClient()
	if err != nil {
		return fmt.Errorf("opening the pipe of csi-proxy: %w", err)
	}
	defer files.Close()
	switch args[0] {
	case "mkdir":
		_, err := files.Mkdir(ctx, &api.MkdirRequest{Path: args[1]})
		return err
	case "exists":
		answer, err := files.PathExists(ctx, &api.PathExistsRequest{Path: args[1]})
		if err != nil {
			return err
		}
		fmt.Print(answer.GetExists())
		return nil
	}
	return fmt.Errorf("want mkdir or exists, got %s", args[0])
}
