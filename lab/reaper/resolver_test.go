//go:build linux

package main

import (
	"slices"
	"testing"

	"github.com/windows-machine-config/wmco/lab/windows/hns"
)

func TestContainerUsesDNSOfItsEndpoint(t *testing.T) {
	endpoint := func(namespace string, dns map[string]any) hns.Object {
		return hns.Object{
			"HostComputeNamespace": namespace, "Dns": dns,
			"IpConfigurations": []any{map[string]any{"IpAddress": "10.244.1." + namespace[1:2]}},
		}
	}
	endpoints := []hns.Object{
		endpoint("{1A}", map[string]any{"Search": []any{"default.svc.cluster.local", "svc.cluster.local"}, "ServerList": []any{"10.96.0.10", "10.96.0.11"}}),
		endpoint("{2b}", map[string]any{"ServerList": []any{"10.96.0.10"}}),
		endpoint("{3c}", nil),
	}
	for namespace, want := range map[string]struct {
		text      string
		addresses []string
	}{
		"1a":   {"nameserver 10.96.0.10\nnameserver 10.96.0.11\nsearch default.svc.cluster.local\noptions timeout:1 attempts:5\n", []string{"10.244.1.1"}},
		"{2B}": {"nameserver 10.96.0.10\noptions timeout:1 attempts:5\n", []string{"10.244.1.2"}},
		"3C":   {"", []string{"10.244.1.3"}},
		"4d":   {},
	} {
		text, addresses, err := resolver(endpoints, namespace)
		if err != nil || text != want.text || !slices.Equal(addresses, want.addresses) {
			t.Errorf("namespace %s: got %q and %q (error %v), want %+v", namespace, text, addresses, err, want)
		}
	}
}
