// Command wincat connects its standard input and output with a port. Containerd runs it in the sandbox of a pod to forward a port of the pod
// (kubectl port-forward); it is a part of Microsoft's pause image.
//
//	wincat ADDRESS PORT
package main

import (
	"fmt"
	"io"
	"net"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "wincat:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("want an address and a port, got %q", args)
	}
	conn, err := net.Dial("tcp", net.JoinHostPort(args[0], args[1]))
	if err != nil {
		return err
	}
	defer conn.Close()
	go func() {
		_, _ = io.Copy(conn, os.Stdin)
		_ = conn.(*net.TCPConn).CloseWrite() // the client has sent everything
	}()
	_, err = io.Copy(os.Stdout, conn)
	return err
}
