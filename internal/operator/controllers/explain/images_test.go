package explain

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/windows-machine-config/wmco/internal/operator/windowsimage"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// TestReservedRegistryAddressIsNotContacted: a pod names an image at an address of the cluster, of the operator's host or of a cloud.
func TestReservedRegistryAddressIsNotContacted(t *testing.T) {
	hosts := []string{"127.0.0.1:6443", "169.254.169.254", "168.63.129.16", "10.96.0.1", "[64:ff9b::a60:1]:443", "localhost:6443", "metadata.google.internal"}
	own, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range own {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil {
			hosts = append(hosts, n.IP.String()+":10250")
		}
	}
	read := newRead(func(context.Context) (desired.RegistryAccess, error) { return desired.RegistryAccess{}, nil },
		func(context.Context) []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")} })
	for _, host := range hosts {
		if _, err := read(t.Context(), host+"/a:1"); !errors.Is(err, windowsimage.ErrNoRegistry) {
			t.Errorf("%s: %v", host, err)
		}
	}
}
