//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
	"github.com/windows-machine-config/wmco/lab/windows/hns"
	"github.com/windows-machine-config/wmco/lab/windows/hostspec"
)

// Files with which Linux programs, including Wine, resolve names: see resolv.conf(5) and hosts(5).
const (
	resolverFile = "/etc/resolv.conf"
	hostsFile    = "/etc/hosts"
)

// ownFile returns the container's file that replaces one of the host's.
func ownFile(drive, file string) string {
	return filepath.Join(hostspec.Drives, drive, filepath.Base(file))
}

// writeResolver writes the files for name resolution in a container: with the DNS settings of the endpoint in its network
// namespace, and the container's own name with its addresses.
func writeResolver(d guestapi.Drive) error {
	if d.Namespace == "" {
		return nil
	}
	store := networks()
	defer store.Close()
	endpoints, err := store.List(hns.Endpoint, "")
	if err != nil {
		return err
	}
	text, addresses, err := resolver(endpoints, d.Namespace)
	if err != nil || text == "" {
		return err
	}
	hosts, err := os.ReadFile(hostsFile)
	if err != nil {
		return fmt.Errorf("reading the names of the host: %w", err)
	}
	for _, address := range addresses {
		hosts = fmt.Appendf(hosts, "%s %s\n", address, d.Host)
	}
	drive := driveOf(d.Root)
	return errors.Join(os.WriteFile(ownFile(drive, resolverFile), []byte(text), 0o644), os.WriteFile(ownFile(drive, hostsFile), hosts, 0o644))
}

// resolver returns the content of resolv.conf for a namespace, which is empty if its endpoint has no name servers, and the
// addresses of the namespace. As on Windows, it only has the first suffix
// (kubernetes.io/docs/concepts/services-networking/dns-pod-service).
func resolver(endpoints []hns.Object, namespace string) (text string, addresses []string, err error) {
	var b strings.Builder
	for _, o := range endpoints {
		var e struct {
			HostComputeNamespace string
			IpConfigurations     []struct{ IpAddress string }
			Dns                  struct{ Search, ServerList []string }
		}
		if err := o.Into(&e); err != nil {
			return "", nil, fmt.Errorf("reading the name servers of a container: %w", err)
		}
		if hns.Key(e.HostComputeNamespace) != hns.Key(namespace) {
			continue
		}
		for _, c := range e.IpConfigurations {
			addresses = append(addresses, c.IpAddress)
		}
		for _, server := range e.Dns.ServerList {
			fmt.Fprintf(&b, "nameserver %s\n", server)
		}
		if len(e.Dns.Search) > 0 {
			fmt.Fprintf(&b, "search %s\n", e.Dns.Search[0])
		}
	}
	if b.Len() > 0 {
		b.WriteString("options timeout:1 attempts:5\n") // as on Windows, retry early
	}
	return b.String(), addresses, nil
}

// enterResolver mounts the container's files for name resolution for this thread, and the program that it becomes.
func enterResolver(drive string) error {
	if _, err := os.Stat(ownFile(drive, resolverFile)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		return fmt.Errorf("creating a mount namespace: %w", err)
	}
	return errors.Join(bind(ownFile(drive, resolverFile), resolverFile), bind(ownFile(drive, hostsFile), hostsFile))
}

// nameFile is the file with the host name of a container.
const nameFile = "hostname"

// writeName writes the host name of a container. If it is "", the container has the name of the host.
func writeName(drive, name string) error {
	if name == "" {
		return nil
	}
	return os.WriteFile(ownFile(drive, nameFile), []byte(name), 0o644)
}

// enterName sets the host name of a container for this thread, and the program that it becomes. Wine reads it there.
func enterName(drive string) error {
	name, err := os.ReadFile(ownFile(drive, nameFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = syscall.Unshare(syscall.CLONE_NEWUTS)
	}
	if err == nil {
		err = syscall.Sethostname(name)
	}
	if err != nil {
		return fmt.Errorf("setting the host name of the container: %w", err)
	}
	return nil
}
