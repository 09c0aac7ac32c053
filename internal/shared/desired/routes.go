package desired

import "github.com/windows-machine-config/wmco/internal/shared/platform"

// Route is a route that the host must have in addition to its own.
type Route struct {
	// To is a range of IPv4 addresses.
	To string `json:"to"`
	// Gateway is true if packets go through the default gateway of the interface that has the node's address, instead of directly to the
	// destination.
	Gateway bool `json:"gateway,omitempty"`
}

// metadataRange is the address of clouds' metadata services.
const metadataRange = platform.MetadataAddress + "/32"

// routes returns those to a cloud's metadata service. Windows loses them when pod networks are added and removed. It then tries to
// reach the service through the interfaces of these networks, which have addresses of the same range.
func routes(in Inputs) []Route {
	switch platform.Of(in.Cluster.Network.Platform).MetadataRoute {
	case platform.ByGateway:
		return []Route{{To: metadataRange, Gateway: true}}
	case platform.OnLink:
		return []Route{{To: metadataRange}}
	default:
		return nil
	}
}
