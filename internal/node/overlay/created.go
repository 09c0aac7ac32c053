package overlay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/strictjson"
)

const (
	// createdName is in the folder of containerd's network configuration, like holdersName.
	createdName = "made-networks"
	// maxCreated and maxCreatedFile limit the file: there are two networks, and leftovers of earlier ones.
	maxCreated     = 16
	maxCreatedFile = 64 << 10
	// maxCreatedText limits names in it.
	maxCreatedText = 512
)

// createdNetwork is a network that this program created, as it was requested, which Windows may not return.
type createdNetwork struct {
	Name    string       `json:"name"`
	Subnet  netip.Prefix `json:"subnet"`
	Gateway netip.Addr   `json:"gateway"`
	VNI     uint32       `json:"vni"`
	Port    uint16       `json:"vxlanPort,omitempty"` // 4789 is Windows' default
	Adapter string       `json:"adapter,omitempty"`
	// HostRoute means that Windows accepted the policy, HadAddresses that the network had its addresses at some time.
	HostRoute    bool `json:"hostRoute,omitempty"`
	HadAddresses bool `json:"hadAddresses,omitempty"`
}

// createdFile stores on the host which networks this program created, by ID, so that it recognizes them after a restart.
type createdFile struct {
	name string
	log  *slog.Logger
	have map[string]createdNetwork
}

// readCreated reads the file. A damaged one is treated as absent: then only what Windows returns is known.
func readCreated(folder string, log *slog.Logger) *createdFile {
	m := &createdFile{name: filepath.Join(folder, createdName), log: log}
	m.have = readStored(m.name, maxCreatedFile, parseCreated, log, "which networks were created")
	return m
}

// add stores a network that was created as requested. Earlier ones with that name are deleted.
func (m *createdFile) add(created, requested hns.Network) {
	maps.DeleteFunc(m.have, func(_ string, n createdNetwork) bool { return n.Name == requested.Name })
	s := requested.Subnets[0]
	m.have[created.ID] = createdNetwork{
		Name: requested.Name, Subnet: s.Prefix, Gateway: s.Gateway, VNI: s.VNI, Port: cmp.Or(requested.VXLANPort, hns.DefaultVXLANPort), Adapter: requested.Adapter,
		HostRoute: created.HostRoute, HadAddresses: created.HasAddresses(),
	}
	m.save()
}

// adopt stores networks of an earlier version with the current settings, because nothing in them contradicts these.
func (m *createdFile) adopt(have, wanted []hns.Network) {
	for _, w := range wanted {
		n := named(have, w.Name)
		if n == nil {
			continue
		}
		if _, known := m.have[n.ID]; !known {
			n.HostRoute = n.HostRoute || len(n.Remotes) > 0 // it was added before them
			m.add(*n, w)
		}
	}
}

func (m *createdFile) remove(id string) {
	if _, known := m.have[id]; known {
		delete(m.have, id)
		m.save()
	}
}

// update stores what Windows returned for a known network.
func (m *createdFile) update(n hns.Network) {
	previous, known := m.have[n.ID]
	current := previous
	current.HostRoute, current.HadAddresses = previous.HostRoute || n.HostRoute, previous.HadAddresses || n.HasAddresses()
	if known && current != previous {
		m.have[n.ID] = current
		m.save()
	}
}

// complete fills in what was requested for a network that Windows returned. differs is what Windows returns instead; empty if nothing. A difference
// is only reported: if Windows always returns something else than requested, the network would otherwise be replaced at each start.
func (m *createdFile) complete(n *hns.Network) (differs string) {
	current, known := m.have[n.ID]
	if !known {
		return ""
	}
	requested := hns.Network{Type: hns.Overlay, Subnets: []hns.Subnet{{Prefix: current.Subnet, Gateway: current.Gateway, VNI: current.VNI}}, VXLANPort: hns.OwnVXLANPort(current.Port)}
	differs = contradiction(*n, requested, nil) // the addresses show whose adapter it is
	n.Subnets = requested.Subnets
	n.VXLANPort, n.Adapter, n.HostRoute = current.Port, current.Adapter, n.HostRoute || current.HostRoute
	m.update(*n)
	return differs
}

// idOf returns the ID of the network of that name that was created last; empty if it is unknown.
func (m *createdFile) idOf(name string) string {
	for id, n := range m.have {
		if n.Name == name {
			return id
		}
	}
	return ""
}

func (m *createdFile) save() {
	text, err := json.Marshal(storedCreated{createdVersion, m.have})
	if err == nil {
		err = writeFile(m.name, text)
	}
	if err != nil {
		m.log.Warn("Storing which networks were created failed", "file", m.name, "error", err.Error())
	}
}

// storedCreated is the content of the file.
type storedCreated struct {
	Version  int                       `json:"version"`
	Networks map[string]createdNetwork `json:"networks"`
}

const createdVersion = 1

// parseCreated parses what save has written, and nothing else.
func parseCreated(text []byte) (map[string]createdNetwork, error) {
	var stored storedCreated
	if err := strictjson.Unmarshal(text, &stored); err != nil {
		return nil, fmt.Errorf("it was not written by this program: %w", err)
	}
	if stored.Version != createdVersion || len(stored.Networks) > maxCreated || stored.Networks == nil {
		return nil, fmt.Errorf("it was not written by this program: version %d, %d networks", stored.Version, len(stored.Networks))
	}
	for id, n := range stored.Networks {
		isOurs := n.Name == Network || n.Name == BaseNetwork
		isSubnet := n.Subnet.IsValid() && n.Subnet.Addr().Is4() && n.Subnet == n.Subnet.Masked() && n.Subnet.Contains(n.Gateway)
		if !isOurs || !isSubnet || len(n.Adapter) > maxCreatedText || len(id) > maxCreatedText || id == "" || strings.ToLower(id) != id {
			return nil, fmt.Errorf("network %.100q was not created by this program", id)
		}
	}
	return stored.Networks, nil
}
