package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/hostnetwork"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// HostNetworkFile records the settings of the host's adapter before flanneld creates its network. hybrid-overlay-node has a record of its own.
const HostNetworkFile = desired.State + `\host-network`

// ReadHostNetwork reads HostNetworkFile. The record is empty if there is none, or with an error.
func ReadHostNetwork(d hostapi.Disk) (hostnetwork.Record, error) {
	b, err := d.ReadAtMost(HostNetworkFile, hostnetwork.MaxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return hostnetwork.Record{}, nil
	}
	var r hostnetwork.Record
	if err == nil {
		r, err = hostnetwork.Decode(b)
	}
	if err != nil {
		return hostnetwork.Record{}, fmt.Errorf("reading %s: %w", HostNetworkFile, err)
	}
	return r, nil
}

// WriteHostNetwork writes HostNetworkFile.
func WriteHostNetwork(d hostapi.Disk, r hostnetwork.Record) error {
	if _, err := d.WriteFile(HostNetworkFile, string(hostnetwork.Encode(r))); err != nil {
		return fmt.Errorf("writing %s: %w", HostNetworkFile, err)
	}
	return nil
}

// BeginHostNetwork records the settings of the adapter with the node's address, because the first network is about to be created. It keeps the record
// of an interrupted attempt, and records nothing of a virtual adapter: the network is not the first one, or the Host Network Service does not list it yet.
func BeginHostNetwork(ctx context.Context, h hostapi.Host, address netip.Addr) (hostnetwork.Record, error) {
	all, err := h.Adapters.Adapters(ctx)
	if err != nil {
		return hostnetwork.Record{}, fmt.Errorf("reading the settings of network adapters: %w", err)
	}
	last, _ := ReadHostNetwork(h.Disk)
	r, found := last.Begin(all, address)
	now, _ := hostnetwork.With(all, address)
	_, isVirtual := hns.AdapterBelow(now.Name)
	switch {
	case !found && last.Phase != hostnetwork.Making:
		return hostnetwork.Record{}, errors.Join(
			fmt.Errorf("no network adapter has the address %s of the node, but the host has %s", address, hostnetwork.Present(all)), ForgetHostNetwork(h.Disk))
	case !found || isVirtual: // the address may come back, or has moved already: another network is not the first one
		return last, nil
	}
	return r, WriteHostNetwork(h.Disk, r)
}

// ForgetHostNetwork removes HostNetworkFile if it exists.
func ForgetHostNetwork(d hostapi.Disk) error {
	if !d.Exists(HostNetworkFile) {
		return nil
	}
	return IgnoreAbsent(d.Remove(HostNetworkFile))
}
