//go:build linux

package lab

import (
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// metadataAddress is the address of the metadata services of clouds.
const metadataAddress = "169.254.169.254"

// ServeMetadata serves a cloud's metadata service for this host only, at the address that clouds use, until stop is called or
// the host is turned off.
func (h *Host) ServeMetadata(handler http.Handler) (stop func(), err error) {
	pid, err := h.pid()
	if err != nil {
		return nil, err
	}
	ns, err := netns.GetFromPid(pid)
	if err != nil {
		return nil, fmt.Errorf("opening the host's namespace: %w", err)
	}
	defer ns.Close()
	inside, err := netlink.NewHandleAt(ns)
	if err != nil {
		return nil, fmt.Errorf("entering the host's namespace: %w", err)
	}
	defer inside.Close()
	loopback, err := inside.LinkByName("lo")
	if err != nil {
		return nil, fmt.Errorf("finding link lo: %w", err)
	}
	only := &net.IPNet{IP: net.ParseIP(metadataAddress), Mask: net.CIDRMask(32, 32)}
	if err := inside.AddrAdd(loopback, &netlink.Addr{IPNet: only}); err != nil {
		return nil, fmt.Errorf("adding %s to link lo: %w", metadataAddress, err)
	}
	var listener net.Listener
	err = inNamespace(pid, func() (err error) {
		listener, err = net.Listen("tcp4", net.JoinHostPort(metadataAddress, "80"))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("serving metadata: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // ends with Close
	return func() { _ = server.Close() }, nil
}
