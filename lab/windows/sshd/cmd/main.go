// Command cmd is the lab's SSH server as a program, for machines without one: the acceptance program starts it.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"github.com/windows-machine-config/wmco/lab/windows/sshd"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:22", "`address` and port to listen on")
	user := flag.String("user", "Administrator", "`name` of the user who can log in; commands run as the user who started this program")
	keys := flag.String("keys", "", "`file` of authorized keys")
	folder := flag.String("folder", ".", "`folder` for the host key and the counters, in which commands start")
	flag.Parse()
	if err := serve(*listen, *user, *keys, *folder); err != nil {
		fmt.Fprintln(os.Stderr, "sshd:", err)
		os.Exit(1)
	}
}

func serve(listen, user, keys, folder string) error {
	server, err := sshd.New(sshd.Options{
		HostKeyFile: filepath.Join(folder, "ssh_host_ed25519_key"), User: user, AuthorizedKeysFile: keys, Home: folder,
		CountersFile: filepath.Join(folder, "sshd.json"), Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", listen)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	return server.Serve(context.Background(), listener)
}
