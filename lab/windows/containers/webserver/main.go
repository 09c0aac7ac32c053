// Command webserver runs in the pods of the lab: it answers every request with the name of its pod.
//
//	webserver            serves
//	webserver echo ...   prints its arguments; without arguments, its standard input
//	webserver exit N     exits with a code
//	webserver read F     prints a file
//	webserver write F    writes its standard input to a file
//	webserver get URL... prints a line for each answer
//	webserver udp A...   sends a packet to each address, and prints the answers
//	webserver lookup N   prints the addresses of a name
//	webserver open F     opens a file or a named pipe
//	webserver fill N     takes N MB of memory
//	webserver spin N     computes for N seconds, and prints the share of a processor that it had, in percent
//
// Under the names powershell.exe, LogMonitor.exe and curl.exe, it replaces these programs in images that need them. curl.exe
// prints the answer to a request for its last argument.
//
// Environment variables configure it. PORT is a comma-separated list of ports for TCP and UDP, by default 8080; UDP packets are
// answered with the name, too. POD_NAME is the name, by default the container's host name. GRACE_SECONDS is how long it
// continues to serve after its stop signal. With IGNORE_STOP it runs until it is killed. GET /exit?code=3 makes it exit with a
// code, GET /file?name=C:\path returns a file, GET /client the client's address.
package main

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	do := run
	switch strings.ToLower(strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")) {
	case "powershell":
		do = runScript
	case "logmonitor":
		do = monitorLogs
	case "curl":
		do = runCurl
	}
	if err := do(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "webserver:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 0:
		return serve()
	case args[0] == "echo" && len(args) == 1:
		_, err := io.Copy(os.Stdout, os.Stdin)
		return err
	case args[0] == "echo":
		fmt.Println(strings.Join(args[1:], " "))
		return nil
	case args[0] == "exit" && len(args) == 2:
		code, err := strconv.Atoi(args[1])
		if err == nil {
			os.Exit(code)
		}
		return err
	case args[0] == "read" && len(args) == 2:
		content, err := os.ReadFile(args[1])
		fmt.Print(string(content))
		return err
	case args[0] == "get":
		return getAll(args[1:])
	case args[0] == "udp":
		return sendAll(args[1:])
	case args[0] == "fill" && len(args) == 2:
		return fill(args[1])
	case args[0] == "spin" && len(args) == 2:
		return spin(args[1])
	case args[0] == "hostname" && len(args) == 1:
		name, err := os.Hostname()
		fmt.Println(name)
		return err
	case args[0] == "lookup" && len(args) == 2:
		addresses, err := net.LookupHost(args[1])
		fmt.Println(strings.Join(addresses, "\n"))
		return err
	case args[0] == "open" && len(args) == 2:
		f, err := os.OpenFile(args[1], os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return f.Close()
	case args[0] == "write" && len(args) == 2:
		content, err := io.ReadAll(os.Stdin)
		if err != nil {
			return err
		}
		return os.WriteFile(args[1], content, 0o644)
	}
	return fmt.Errorf("want nothing, echo, exit, read, write, get, udp, hostname, lookup, open, fill or spin, got %q", args)
}

func serve() error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	name = cmp.Or(os.Getenv("POD_NAME"), name)
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, name) })
	http.HandleFunc("/client", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, r.RemoteAddr) })
	http.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, r.FormValue("name")) })
	http.HandleFunc("/exit", func(_ http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.FormValue("code"))
		fmt.Printf("%s exits with code %d on request\n", name, code)
		os.Exit(code)
	})
	failed := make(chan error, 1)
	for port := range strings.SplitSeq(cmp.Or(os.Getenv("PORT"), "8080"), ",") {
		listener, err := net.Listen("tcp", ":"+port)
		if err != nil {
			return err
		}
		packets, err := net.ListenPacket("udp", ":"+port)
		if err != nil {
			return err
		}
		fmt.Printf("%s listens on %s\n", name, listener.Addr())
		go func() { failed <- http.Serve(listener, nil) }()
		go func() { failed <- answer(packets, name) }()
	}
	return until(failed, name)
}

// until returns when the server has failed, or at the end of its grace period after a stop signal.
func until(failed <-chan error, name string) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM) // on Windows Ctrl-C and Ctrl-Break, and the end of a session or of Windows
	for {
		select {
		case err := <-failed:
			return err
		case s := <-stop:
			fmt.Printf("%s received stop signal: %s\n", name, s)
			if os.Getenv("IGNORE_STOP") != "" {
				continue
			}
			grace, _ := strconv.Atoi(os.Getenv("GRACE_SECONDS"))
			time.Sleep(time.Duration(grace) * time.Second)
			fmt.Printf("%s used %d s of its grace period\n", name, grace)
			return nil
		}
	}
}
