// Package cniresult decodes what libcni, through which containerd calls network plugins, caches of each sandbox: one file in
// desired.CNIResults, written after all plugins have succeeded and removed after all have removed the network (cachedInfo in
// libcni/api.go of containernetworking/cni). libcni does not replace the file atomically.
package cniresult

import (
	"encoding/json"
	"net/netip"
)

// MaxSize is more than the size of such a file, in bytes: it contains the configuration of the network and the result.
const MaxSize = 1 << 20

// Sandbox is the network of a pod's sandbox.
type Sandbox struct {
	// Container is the ID of the sandbox.
	Container string
	// Namespace, Name and UID are those of the pod, from the arguments that containerd passes to plugins (toCNILabels in
	// internal/cri/server/sandbox_run.go); empty where they are missing.
	Namespace, Name, UID string
	// Addresses are the IPv4 addresses.
	Addresses []netip.Addr
}

// Decode decodes a file, in the formats before and since version 0.3 of CNI. ok is false if it has no sandbox or no IPv4 address.
func Decode(b []byte) (s Sandbox, ok bool) {
	var cached struct {
		Container string      `json:"containerId"`
		Args      [][2]string `json:"cniArgs"`
		Result    struct {
			IP4 struct {
				IP string `json:"ip"`
			} `json:"ip4"`
			IPs []struct {
				Address string `json:"address"`
			} `json:"ips"`
		} `json:"result"`
	}
	if json.Unmarshal(b, &cached) != nil || cached.Container == "" {
		return s, false
	}
	s.Container = cached.Container
	for _, arg := range cached.Args {
		switch arg[0] {
		case "K8S_POD_NAMESPACE":
			s.Namespace = arg[1]
		case "K8S_POD_NAME":
			s.Name = arg[1]
		case "K8S_POD_UID":
			s.UID = arg[1]
		}
	}
	texts := []string{cached.Result.IP4.IP}
	for _, ip := range cached.Result.IPs {
		texts = append(texts, ip.Address)
	}
	for _, text := range texts {
		if prefix, err := netip.ParsePrefix(text); err == nil && prefix.Addr().Is4() {
			s.Addresses = append(s.Addresses, prefix.Addr())
		}
	}
	return s, len(s.Addresses) > 0
}
