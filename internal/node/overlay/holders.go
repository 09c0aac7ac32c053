package overlay

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/strictjson"
)

const (
	// holdersName is in the folder of containerd's network configuration. It has none of the extensions that containerd reads.
	holdersName = "subnet-holders"
	// saveInterval limits how often the file is written while many nodes join.
	saveInterval = 10 * time.Second
	// maxHolders and maxHoldersFile limit the file. A cluster has at most a few thousand nodes.
	maxHolders     = 20000
	maxHoldersFile = 8 << 20
	maxNodeName    = 253
)

// holdersFile stores on the host which Nodes have which subnets, so that a Node keeps its subnet when Windows restarts.
type holdersFile struct {
	name string
	log  *slog.Logger
	have holders
	// known is set once have includes the Nodes of the remote subnets that existed at the start of the program.
	known bool
	// saved is the content of the file, written at savedAt.
	saved   holders
	savedAt time.Time
}

// readHolders reads the file. A damaged one is treated as absent.
func readHolders(folder string, log *slog.Logger) *holdersFile {
	h := &holdersFile{name: filepath.Join(folder, holdersName), log: log}
	h.have = readStored(h.name, maxHoldersFile, parseHolders, log, "which nodes had which subnets")
	h.saved = maps.Clone(h.have)
	return h
}

// addExisting adds the Nodes of existing remote subnets.
func (h *holdersFile) addExisting(found holders) {
	h.have.add(found)
	h.known = true
}

// save writes the file if it is due.
func (h *holdersFile) save() {
	if time.Since(h.savedAt) >= saveInterval {
		h.saveNow()
	}
}

// saveNow writes the file if it differs.
func (h *holdersFile) saveNow() {
	if maps.Equal(h.have, h.saved) {
		return
	}
	h.savedAt = time.Now()
	text, err := formatHolders(h.have)
	if err == nil {
		err = writeFile(h.name, text)
	}
	if err != nil {
		h.log.Warn("Storing which nodes have which subnets failed", "file", h.name, "error", err.Error())
		return
	}
	h.saved = maps.Clone(h.have)
}

// storedHolders is the content of the file.
type storedHolders struct {
	Version int               `json:"version"`
	Subnets map[string]string `json:"subnets"`
}

const holdersVersion = 1

func formatHolders(h holders) ([]byte, error) {
	if len(h) > maxHolders {
		return nil, fmt.Errorf("%d subnets are more than the limit of %d", len(h), maxHolders)
	}
	stored := storedHolders{holdersVersion, make(map[string]string, len(h))}
	for subnet, node := range h {
		stored.Subnets[subnet.String()] = node
	}
	return json.Marshal(stored)
}

// parseHolders parses what formatHolders has written, and nothing else.
func parseHolders(text []byte) (holders, error) {
	var stored storedHolders
	if err := strictjson.Unmarshal(text, &stored); err != nil {
		return nil, fmt.Errorf("it was not written by this program: %w", err)
	}
	if stored.Version != holdersVersion || len(stored.Subnets) > maxHolders {
		return nil, fmt.Errorf("it was not written by this program: version %d, %d subnets", stored.Version, len(stored.Subnets))
	}
	read, nodes := make(holders, len(stored.Subnets)), map[string]bool{}
	for subnet, node := range stored.Subnets {
		p, err := netip.ParsePrefix(subnet)
		if err != nil || p.String() != subnet || p != p.Masked() || !p.Addr().Is4() || p.Bits() < minBits || p.Bits() > maxBits {
			return nil, fmt.Errorf("%.100q is not the subnet of a node", subnet)
		}
		if nodes[node] || !isNodeName(node) {
			return nil, fmt.Errorf("%.100q is not the name of a node, or has several subnets", node)
		}
		read[p], nodes[node] = node, true
	}
	sorted := read.subnets()
	for i := range sorted {
		if i > 0 && sorted[i-1].Overlaps(sorted[i]) {
			return nil, fmt.Errorf("%s overlaps %s", sorted[i-1], sorted[i])
		}
	}
	return read, nil
}

// isNodeName reports whether a Node can have the name.
func isNodeName(name string) bool {
	return name != "" && len(name) <= maxNodeName &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-.") == ""
}
