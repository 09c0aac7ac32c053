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

// Files by which programs of Linux, and so Wine, resolve names: see resolv.conf(5) and hosts(5).
const (
	resolverFile = "/etc/resolv.conf"
	hostsFile    = "/etc/hosts"
)

// ownFile is a container's own file, such as it has in place of these.
func ownFile(drive, file string) string {
	return filepath.Join(hostspec.Drives, drive, filepath.Base(file))
}

// writeResolver writes how the programs of a container resolve names: by the settings of the endpoint in its network namespace, and their
// own name as its addresses.
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

// resolver is the file for the programs in a namespace, empty if its endpoint has no name servers, and their addresses. As on Windows, only
// the first suffix is used (kubernetes.io/docs/concepts/services-networking/dns-pod-service).
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
		b.WriteString("options timeout:1 attempts:5\n") // as on Windows, the first answer is not waited for long
	}
	return b.String(), addresses, nil
}

// resolveAs gives this thread, and the program that it becomes, the container's files in place of the host's.
func resolveAs(drive string) error {
	if _, err := os.Stat(ownFile(drive, resolverFile)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		return fmt.Errorf("making a mount namespace: %w", err)
	}
	return errors.Join(bind(ownFile(drive, resolverFile), resolverFile), bind(ownFile(drive, hostsFile), hostsFile))
}

// nameFile has the host name of a container.
const nameFile = "hostname"

// writeName notes the host name of a container. Without one, it has that of the host.
func writeName(drive, name string) error {
	if name == "" {
		return nil
	}
	return os.WriteFile(ownFile(drive, nameFile), []byte(name), 0o644)
}

// takeName gives this thread, and the program that it becomes, the host name of a container. Wine's server reads it from there.
func takeName(drive string) error {
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
		return fmt.Errorf("taking the name of the container: %w", err)
	}
	return nil
}
