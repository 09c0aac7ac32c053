package desired

import (
	"net/netip"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/payload"
)

// kubeletHealthPort is the kubelet's default, on loopback.
const kubeletHealthPort = 10248

// Port is a TCP port on which a service of the node listens.
type Port struct {
	Number  uint16
	Service string
	// Loopback means that it listens on 127.0.0.1 only, not on all addresses.
	Loopback bool
}

// Ports returns the ports without which a node with this content does not work or cannot be monitored. The SSH port belongs to the host.
func Ports(m payload.Manifest) []Port {
	ports := []Port{
		{kubeletPort, KubeletService, false}, {kubeletHealthPort, KubeletService, true}, {proxyPort, KubeProxyService, false}, {RegistryPort, api.WICDService, true},
	}
	if has(m, exporterProgram) {
		ports = append(ports, Port{exporterPort, ExporterService, false})
	}
	return ports
}

// MayListen reports whether a node may need a port: a TCP port for one of its services, or the UDP port of its overlay.
func MayListen(udp bool, port uint16) bool {
	if udp {
		return port == VXLANPort
	}
	switch port {
	case kubeletPort, kubeletHealthPort, proxyPort, RegistryPort, exporterPort:
		return true
	}
	return false
}

// IsTakenAt reports whether a program that listens at an address blocks the service's port or receives its traffic.
func (p Port) IsTakenAt(address netip.Addr) bool {
	address = address.Unmap()
	return address.IsUnspecified() || address.Is4() && address.IsLoopback() == p.Loopback
}

// Engines returns the services of container engines that administrators install: Docker Engine or Mirantis Container Runtime, and Docker
// Desktop.
func Engines() []string { return []string{"docker", "com.docker.service"} }
