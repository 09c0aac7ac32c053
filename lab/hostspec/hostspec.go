// Package hostspec is what the lab tells the keeper of a Windows host, in a file of the
// host's folder, and where both find what is in the folder of a service.
package hostspec

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/windows-machine-config/wmco/lab/guestapi"
)

// Prefix is where a host's Windows is mounted in the host's own mount namespace; drive C: is the folder drive_c in it.
const Prefix = "/mnt"

// ServiceFolder is where the folder of a service is mounted in the service's own mount namespace; ServiceLog is the file in
// it with what the service prints.
const (
	ServiceFolder = "/mnt"
	ServiceLog    = "output.log"
)

// Link is the network interface of a host.
const Link = "eth0"

// PodNetworkName is how the hosts' network service calls the network of pods.
const PodNetworkName = "lab"

// Wine is where the programs of Wine are.
type Wine struct {
	Loader, Server string
}

// Host describes a host to boot.
type Host struct {
	Name     string
	Names    map[string]string // all names that it knows, its own among them -> address
	Template string            // folder, made by a keeper from a Template
	Wine     Wine
	Files    map[string][]byte // path below drive_c -> content, written before the first boot
	// PodNetwork is the range of addresses of the cluster's pods. The host has a network for them; none when it is empty.
	PodNetwork string
}

// Template describes what hosts are copied from.
type Template struct {
	Prefix   string            // folder to make
	Files    map[string]string // path below drive_c -> file to copy there
	Registry []guestapi.RegistryEntry
	Wine     Wine
}

const file = "spec.json"

// Write puts a Host or Template into the folder of a keeper.
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
