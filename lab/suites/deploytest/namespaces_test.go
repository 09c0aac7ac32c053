//go:build linux

package deploytest

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
)

const (
	// insideTest has the name of the test that runs in namespaces of its own.
	insideTest = "WMCO_TEST_IN_NAMESPACES"
	// nodeAddress is that of the control plane node whose network the test has.
	nodeAddress = "10.77.5.1"
)

// inOwnNamespaces runs a test in another process, with namespaces of network and mounts of its own, and reports there that it does. The network is
// that of a node with an address and a default route.
func inOwnNamespaces(t *testing.T) (inside bool) {
	t.Helper()
	if os.Getenv(insideTest) == t.Name() {
		must(t, errors.Join(syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""), makeNetwork()))
		return true
	}
	if os.Getuid() != 0 {
		t.Skip("namespaces of network and mounts need root")
	}
	program, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), program, "-test.v", "-test.timeout=5m", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), insideTest+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	output, err := cmd.CombinedOutput()
	if t.Logf("in namespaces of its own:\n%s", output); err != nil || !strings.Contains(string(output), "--- PASS: "+t.Name()) {
		t.Errorf("it ends with %v", err)
	}
	return false
}

func makeNetwork() error {
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	node := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "node"}}
	address, err := netlink.ParseAddr(nodeAddress + "/24")
	if err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return netlink.LinkSetUp(loopback) },
		func() error { return netlink.LinkAdd(node) },
		func() error { return netlink.AddrAdd(node, address) },
		func() error { return netlink.LinkSetUp(node) },
		func() error {
			router := netip.MustParseAddr(nodeAddress).Next()
			return netlink.RouteAdd(&netlink.Route{LinkIndex: node.Attrs().Index, Gw: net.IP(router.AsSlice())})
		},
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
