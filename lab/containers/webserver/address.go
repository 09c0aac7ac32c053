package main

import (
	"net/netip"
	"os"
	"slices"
	"strings"
)

// ownAddress is the address to listen on: POD_IP, or what the hosts file that the kubelet writes says. It is empty for all addresses.
func ownAddress() string {
	if address := os.Getenv("POD_IP"); address != "" {
		return address
	}
	text, err := os.ReadFile(`C:\windows\system32\drivers\etc\hosts`)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) { // an address and its names; in a StatefulSet, that of the pod is the second
		words := strings.Fields(line)
		if !slices.ContainsFunc(words, func(name string) bool { return strings.EqualFold(name, os.Getenv("COMPUTERNAME")) }) {
			continue
		}
		if address, err := netip.ParseAddr(words[0]); err == nil && address.Is4() {
			return words[0]
		}
	}
	return ""
}
