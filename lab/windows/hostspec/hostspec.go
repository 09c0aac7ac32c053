// Package hostspec has the description of a Windows host that the lab writes for the host's reaper, in a file of the host's
// folder, and the names of files in the folder of a service.
package hostspec

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
)

// Prefix is the path of a host's Windows in its mount namespace; drive C: is its folder drive_c.
const Prefix = "/mnt"

// Drives is the folder in the host's mount namespace with the drives of containers. Each is a Wine prefix, mounted at its folder prefix,
// that differs from the host's in drive C: only.
const Drives = "/tmp/drives"

// Accounting is a link in the folder of a drive, to the cgroup that counts the processor time of the container's processes.
const Accounting = "accounting"

// Networks is the folder in the host's mount namespace with the network namespaces of pods, by the IDs of the network service's namespaces.
// PodLinkPrefix begins the names of the host's links to them.
const (
	Networks      = "/tmp/networks"
	PodLinkPrefix = "pod"
)

// ServiceFolder is the path of a service's folder in the service's mount namespace; ServiceLog is the file in it with the
// service's output.
const (
	ServiceFolder = "/mnt"
	ServiceLog    = "output.log"
)

// Link is the name of a host's network interface.
const Link = "eth0"

// PodNetworkName is the name of the pod network in the hosts' network service.
const PodNetworkName = "lab"

// Wine has the paths of Wine's programs.
type Wine struct {
	Loader, Server string
	// Preload is a library that is loaded into the server of hosts; see shims/wineserver.c. Names is one for the programs of containers; see
	// shims/names.c.
	Preload, Names string
}

// Host describes a host to boot.
type Host struct {
	Name     string
	Names    map[string]string // all names it resolves, including its own -> address
	Template string            // folder, created by a reaper from a Template
	Wine     Wine
	Files    map[string][]byte // path on drive C: -> content, written before the first boot
	// NFT is the program that sets the kernel's rules for Services and ACLs; empty if there is none.
	NFT string
	// Cgroup is the cgroup of the host's containers, below the lab's own.
	Cgroup string
	// PodNetwork is the range of the cluster's pod addresses. If it is empty, the host has no network for pods.
	PodNetwork string
}

// Template describes the template of hosts.
type Template struct {
	Prefix   string            // folder to create
	Files    map[string]string // path on drive C: -> file to copy there
	Registry []guestapi.RegistryEntry
	Wine     Wine
}

const file = "spec.json"

// Write writes a Host or Template into the folder of a reaper.
func Write(dir string, spec any) error {
	raw, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("encoding the host's description: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, file), raw, 0o600); err != nil {
		return fmt.Errorf("writing the host's description: %w", err)
	}
	return nil
}

// Read reads what Write wrote.
func Read(dir string, spec any) error {
	raw, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return fmt.Errorf("reading the host's description: %w", err)
	}
	if err := json.Unmarshal(raw, spec); err != nil {
		return fmt.Errorf("decoding the host's description: %w", err)
	}
	return nil
}
