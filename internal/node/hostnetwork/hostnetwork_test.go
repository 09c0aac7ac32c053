package hostnetwork_test

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/hostnetwork"
)

func before() hostnetwork.Adapter {
	return hostnetwork.Adapter{
		Name: "Ethernet", Index: 4, MTU: 1460, Metric: 15, Suffix: "example.com",
		Addresses: []hostnetwork.Address{
			{Prefix: netip.MustParsePrefix("192.0.2.10/24"), Static: true},
			{Prefix: netip.MustParsePrefix("192.0.2.11/24"), Static: true, SkipAsSource: true},
		},
		DNS: []netip.Addr{netip.MustParseAddr("192.0.2.53"), netip.MustParseAddr("192.0.2.54")},
	}
}

func TestLostAdapterSettingsAreReported(t *testing.T) {
	for name, test := range map[string]struct {
		change func(before, now *hostnetwork.Adapter)
		want   string
	}{
		"nothing":                 {func(_, _ *hostnetwork.Adapter) {}, ""},
		"the MTU of the NIC":      {func(_, n *hostnetwork.Adapter) { n.MTU = 1450 }, "MTU 1410"},
		"a smaller MTU":           {func(_, n *hostnetwork.Adapter) { n.MTU = 1400 }, ""},
		"no other adapter":        {func(_, n *hostnetwork.Adapter) { n.Name, n.MTU = "Ethernet", 1460 }, ""},
		"one of two DNS servers":  {func(_, n *hostnetwork.Adapter) { n.DNS = n.DNS[1:] }, "DNS servers 192.0.2.53 192.0.2.54"},
		"all DNS servers":         {func(_, n *hostnetwork.Adapter) { n.DNS = nil }, "DNS servers 192.0.2.53 192.0.2.54"},
		"more DNS servers":        {func(_, n *hostnetwork.Adapter) { n.DNS = append(n.DNS, netip.MustParseAddr("192.0.2.55")) }, ""},
		"others by DHCP":          {func(b, n *hostnetwork.Adapter) { b.DHCP, n.DHCP, n.DNS = true, true, n.DNS[1:] }, ""},
		"configured beside DHCP":  {func(b, n *hostnetwork.Adapter) { b.DHCP, b.StaticDNS, n.DHCP, n.DNS = true, true, true, n.DNS[1:] }, "DNS servers 192.0.2.53 192.0.2.54"},
		"a suffix of DHCP":        {func(b, n *hostnetwork.Adapter) { b.DHCP, n.DHCP, n.Suffix = true, true, "" }, ""},
		"no DHCP any more":        {func(b, n *hostnetwork.Adapter) { b.DHCP, n.Suffix = true, "" }, "DNS suffix example.com"},
		"the suffix":              {func(_, n *hostnetwork.Adapter) { n.Suffix = "" }, "DNS suffix example.com"},
		"the suffix in capitals":  {func(_, n *hostnetwork.Adapter) { n.Suffix = "EXAMPLE.com" }, ""},
		"the metric":              {func(_, n *hostnetwork.Adapter) { n.Metric = 0 }, "interface metric 15"},
		"a metric that is new":    {func(b, _ *hostnetwork.Adapter) { b.Metric = 0 }, ""},
		"a secondary address":     {func(_, n *hostnetwork.Adapter) { n.Addresses = n.Addresses[:1] }, "address 192.0.2.11/24"}, // https://github.com/ovn-kubernetes/ovn-kubernetes/issues/2530
		"an address of DHCP":      {func(b, n *hostnetwork.Adapter) { b.Addresses[1].Static, n.Addresses = false, n.Addresses[:1] }, ""},
		"an MTU that was unknown": {func(b, _ *hostnetwork.Adapter) { b.MTU = 0 }, ""},
		"a tiny MTU":              {func(b, n *hostnetwork.Adapter) { b.MTU, n.MTU = 1300, 1300 }, ""},
		"several": {
			func(_, n *hostnetwork.Adapter) { n.DNS, n.Suffix, n.Metric = nil, "", 0 },
			"DNS servers 192.0.2.53 192.0.2.54, DNS suffix example.com, interface metric 15",
		},
	} {
		previous, now := before(), before()
		now.Name, now.MTU = "vEthernet (Ethernet)", 1410
		test.change(&previous, &now)
		if got := hostnetwork.Compare(previous, now, []hostnetwork.Adapter{now}); got.String() != test.want || got.IsEmpty() != (test.want == "") {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

func record() hostnetwork.Record {
	return hostnetwork.Record{Phase: hostnetwork.Making, Address: netip.MustParseAddr("192.0.2.10"), Before: before()}
}

func TestRecordRoundTrips(t *testing.T) {
	want := record()
	got, err := hostnetwork.Decode(hostnetwork.Encode(want))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestInvalidRecordIsRejected(t *testing.T) {
	good := string(hostnetwork.Encode(record()))
	for name, text := range map[string]string{
		"empty":           "",
		"null":            "null",
		"cut":             good[:len(good)-9],
		"something after": good + "{}",
		"unknown field":   strings.Replace(good, `"phase"`, `"x":1,"phase"`, 1),
		"another phase":   strings.Replace(good, `"making"`, `"done"`, 1),
		"another address": strings.Replace(good, `"address":"192.0.2.10"`, `"address":"192.0.2.99"`, 1),
		"IPv6":            strings.Replace(good, `192.0.2.11/24`, `fd00::1/64`, 1),
		"no prefix":       strings.Replace(good, `192.0.2.11/24`, ``, 1),
		"a long name":     strings.Replace(good, `"Ethernet"`, `"`+strings.Repeat("x", 300)+`"`, 1),
		"large":           good + strings.Repeat(" ", 64<<10),
	} {
		if got, err := hostnetwork.Decode([]byte(text)); err == nil {
			t.Errorf("%s: read as %+v", name, got)
		}
	}
}

// FuzzRecord checks that every accepted record can be encoded and decoded again.
func FuzzRecord(f *testing.F) {
	f.Add(hostnetwork.Encode(record()))
	f.Add([]byte(`{"phase":"lost","address":"192.0.2.1","before":{"name":"\u2028","addresses":[{"prefix":"192.0.2.1/0"}]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := hostnetwork.Decode(b)
		if err != nil {
			return
		}
		again, err := hostnetwork.Decode(hostnetwork.Encode(r))
		if err != nil || again.Address != r.Address || len(again.Before.Addresses) > 256 {
			t.Errorf("%q is read as %+v, then %+v (%v)", b, r, again, err)
		}
		_ = hostnetwork.Compare(r.Before, again.Before, []hostnetwork.Adapter{again.Before}).String()
	})
}
