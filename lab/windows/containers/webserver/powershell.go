package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
)

// The lab has no PowerShell. In images that need it, this program is powershell.exe, and supports one script: the web server in
// the Kubernetes documentation, from which it reads the port.

// runScript implements the script: a web server that responds with the number of requests of each client.
func runScript(args []string) error {
	script := strings.Join(args, " ")
	prefix := regexp.MustCompile(`HttpListener.*\$listener\.Prefixes\.Add\('http://\*:(\d+)/'\)`).FindStringSubmatch(script)
	if len(args) != 2 || args[0] != "-command" || prefix == nil {
		return errors.New("the lab's powershell.exe supports only the web server of Kubernetes' documentation")
	}
	var mu sync.Mutex
	calls := map[string]int{}
	listener, err := net.Listen("tcp", ":"+prefix[1])
	if err != nil {
		return err
	}
	fmt.Printf("Listening at http://*:%s/\n", prefix[1])
	return http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client, _, _ := net.SplitHostPort(r.RemoteAddr)
		mu.Lock()
		defer mu.Unlock()
		calls[client]++
		fmt.Fprint(w, "<html><body><H1>Windows Container Web Server</H1>")
		for address, count := range calls {
			fmt.Fprintf(w, "<p>IP %s callerCount %d ", address, count)
		}
		fmt.Fprint(w, "</body></html>")
	}))
}
