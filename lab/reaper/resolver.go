//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/windows-machine-config/wmco/lab/hns"
	"github.com/windows-machine-config/wmco/lab/hostspec"
)

// resolverFile is what programs of Linux, and so Wine, resolve names by (resolv.conf(5)).
const resolverFile = "/etc/resolv.conf"

// resolverOf is the file that a container has in its place.
func resolverOf(drive string) string {
	return filepath.Join(hostspec.Drives, drive, filepath.Base(resolverFile))
}

// writeResolver writes how the programs of a container resolve names: by the settings of the endpoint in its network namespace.
func writeResolver(drive, namespace string) error {
	if namespace == "" {
		return nil
	}
	store := networks()
	defer store.Close()
	endpoints, err := store.List(hns.Endpoint, "")
	if err != nil {
		return err
	}
	text, err := resolver(endpoints, namespace)
	if err != nil || text == "" {
		return err
	}
	return os.WriteFile(resolverOf(drive), []byte(text), 0o644)
}

// resolver is the file for the programs in a namespace; empty if its endpoint has no name servers. As on Windows, only the first suffix is
// used (kubernetes.io/docs/concepts/services-networking/dns-pod-service).
func resolver(endpoints []hns.Object, namespace string) (string, error) {
	var b strings.Builder
	for _, o := range endpoints {
		raw, err := json.Marshal(o)
		if err != nil {
			return "", err
		}
		var e struct {
			HostComputeNamespace string
			Dns                  struct{ Search, ServerList []string }
		}
		if err := json.Unmarshal(raw, &e); err != nil {
			return "", fmt.Errorf("reading the name servers of a container: %w", err)
		}
		if !strings.EqualFold(strings.Trim(e.HostComputeNamespace, "{}"), strings.Trim(namespace, "{}")) {
			continue
		}
		for _, server := range e.Dns.ServerList {
			fmt.Fprintf(&b, "nameserver %s\n", server)
		}
		if len(e.Dns.Search) > 0 {
			fmt.Fprintf(&b, "search %s\n", e.Dns.Search[0])
		}
	}
	if b.Len() > 0 {
		b.WriteString("options timeout:1 attempts:5\n") // as on Windows, the first answer is not waited for long
	}
	return b.String(), nil
}

// resolveAs gives this thread, and the program that it becomes, the container's file in place of the host's.
func resolveAs(drive string) error {
	file := resolverOf(drive)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		return fmt.Errorf("making a mount namespace: %w", err)
	}
	return bind(file, resolverFile)
}
