package addresses_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/operator/addresses"
)

func TestSpecialAddressesAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"8.8.8.8": "", "10.0.0.1": "", "172.30.0.1": "", "192.168.1.1": "", "100.64.0.1": "", "100.100.100.201": "", "198.18.0.1": "", "203.0.113.7": "",
		"168.63.129.15": "", "192.0.1.1": "", "2001:db8::1": "", "2600::1": "", "fd00::1": "", "fd20:ce::1": "", "fc00::1": "", "64:ff9b::a00:1": "", "::ffff:10.0.0.1": "",
		"0.0.0.0": "no particular host", "0.1.2.3": "no particular host", "127.8.8.8": "loopback", "169.254.169.254": "link-local", "224.0.0.1": "multicast", "239.1.1.1": "multicast",
		"240.0.0.1": "class E", "255.255.255.255": "broadcast", "192.0.0.1": "protocols", "192.88.99.1": "deprecated",
		"168.63.129.16": "cloud", "100.100.100.200": "cloud", "192.0.0.192": "cloud",
		"::": "no particular host", "::1": "loopback", "fe80::1": "link-local", "fe80::1%eth0": "link-local", "fec0::1": "deprecated", "ff02::1": "multicast",
		"fd00:ec2::254": "cloud", "fd00:ec2::253": "cloud", "fd20:ce::254": "cloud", "fd00:c1::a9fe:a9fe": "cloud", "fd00:42::42": "cloud",
		"::ffff:127.0.0.1": "loopback", "::ffff:169.254.169.254": "link-local", "::ffff:168.63.129.16": "cloud",
		"64:ff9b::7f00:1": "loopback", "64:ff9b::a9fe:a9fe": "link-local", "64:ff9b::6464:64c8": "cloud",
		"64:ff9b:1::a9fe:a9fe": "embeds", "64:ff9b:1:a9fe:00a9:fe00::": "embeds", "2002:a9fe:a9fe::1": "embeds", "2002:a00:1::": "embeds",
		"::ffff:0:169.254.169.254": "embeds", "::169.254.169.254": "deprecated", "2001:0:a9fe:a9fe::1": "protocols", "5f00::1": "protocols", "100::1": "discard",
	} {
		if got := addresses.Special(netip.MustParseAddr(text)); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s %q, want it to contain %q", text, got, want)
		}
	}
	if addresses.Special(netip.Addr{}) == "" {
		t.Error("no address is one of a machine")
	}
}

func TestSpecialNamesAreRefused(t *testing.T) {
	for name, isSpecial := range map[string]bool{
		"quay.io": false, "registry": false, "10.example.com": false, "metadata.example.com": false, "localhost.example.com": false, "xn--0x.de": false,
		"localhost": true, "LOCALHOST.": true, "a.localhost": true, "localhost.localdomain": true, "ip6-localhost": true, "127.1": true, "0177.0.0.1": true, "2130706433": true,
		"0x7f.0x1": true, "0x7f000001": true, "": true, ".": true, "metadata.google.internal": true, "Metadata.Google.Internal.": true, "metadata": true, "instance-data.ec2.internal": true,
	} {
		if got := addresses.SpecialName(name); (got != "") != isSpecial {
			t.Errorf("%q %q", name, got)
		}
	}
	for name, isClusters := range map[string]bool{
		"kubernetes.default.svc": true, "a.b.svc.cluster.local.": true, "a.b.SVC.example": true, "10-0-0-1.b.pod.cluster.local": true, "svcs.example.com": false, "cluster.local.example.com": false, "quay.io": false,
	} {
		if addresses.InCluster(name) != isClusters {
			t.Errorf("%q is the cluster's: %v", name, !isClusters)
		}
	}
}

// FuzzSpecial: an IPv6 address with a translated IPv4 address inside has the meaning of that address.
func FuzzSpecial(f *testing.F) {
	f.Add(uint32(0x7f000001))
	f.Add(uint32(0xa9fea9fe))
	f.Add(uint32(0x0a000001))
	f.Fuzz(func(t *testing.T, bits uint32) {
		four := [4]byte{byte(bits >> 24), byte(bits >> 16), byte(bits >> 8), byte(bits)}
		plain := netip.AddrFrom4(four)
		want := addresses.Special(plain)
		if got := addresses.Special(netip.AddrFrom16(plain.As16())); got != want {
			t.Errorf("mapped, %s %q, want %q", plain, got, want)
		}
		translated := [16]byte{1: 0x64, 2: 0xff, 3: 0x9b}
		copy(translated[12:], four[:])
		if got := addresses.Special(netip.AddrFrom16(translated)); got != want {
			t.Errorf("translated, %s %q, want %q", plain, got, want)
		}
		six := [16]byte{0x20, 0x02}
		copy(six[2:], four[:])
		if addresses.Special(netip.AddrFrom16(six)) == "" {
			t.Errorf("%s is an ordinary address", netip.AddrFrom16(six))
		}
	})
}
