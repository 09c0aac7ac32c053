package desired

import (
	"net/netip"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/payload"
)

// kubeletHealthPort is on loopback, the kubelet's own default.
const kubeletHealthPort = 10248

// Port is a port of TCP on which a service of the node listens.
type Port struct {
	Number  uint16
	Service string
	// Loopback says that it listens on 127.0.0.1 only, and else on all addresses.
	Loopback bool
}

// Ports are those without which a node with this content does not work, or cannot be watched. That of SSH is the host's own.
func Ports(m payload.Manifest) []Port {
	ports := []Port{
		{kubeletPort, KubeletService, false}, {kubeletHealthPort, KubeletService, true}, {proxyPort, KubeProxyService, false}, {RegistryPort, api.WICDService, true},
	}
	if has(m, exporterProgram) {
		ports = append(ports, Port{exporterPort, ExporterService, false})
	}
	return ports
}

// MayListen tells whether a node may need a port: of TCP for one of its services, of UDP for its overlay.
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

// IsTakenAt tells whether a program that listens at an address keeps the service from its port, or gets what is meant for it.
func (p Port) IsTakenAt(address netip.Addr) bool {
	address = address.Unmap()
	return address.IsUnspecified() || address.Is4() && address.IsLoopback() == p.Loopback
}

// Engines are the services of container engines that administrators install: Docker Engine or Mirantis Container Runtime, and Docker Desktop.
func Engines() []string { return []string{"docker", "com.docker.service"} }
