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
	// insideTest is the variable with the name of the test that runs in its own namespaces.
	insideTest = "WMCO_TEST_IN_NAMESPACES"
	// nodeAddress is the address of the simulated control plane node.
	nodeAddress = "10.77.5.1"
)

// inOwnNamespaces reruns the calling test in another process with its own network and mount namespaces. It returns true in that
// process, and false in the original one. The network has an address and a default route, like that of a node.
func inOwnNamespaces(t *testing.T) (inside bool) {
	t.Helper()
	if os.Getenv(insideTest) == t.Name() {
		must(t, errors.Join(syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""), makeNetwork()))
		return true
	}
	if os.Getuid() != 0 {
		t.Skip("network and mount namespaces need root")
	}
	program, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), program, "-test.v", "-test.timeout=5m", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), insideTest+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	output, err := cmd.CombinedOutput()
	if t.Logf("output of the test in its own namespaces:\n%s", output); err != nil || !strings.Contains(string(output), "--- PASS: "+t.Name()) {
		t.Errorf("the test in its own namespaces did not pass (error %v)", err)
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
