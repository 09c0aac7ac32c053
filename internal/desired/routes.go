package desired

import "github.com/windows-machine-config/wmco/internal/platform"

// Route is one that the host must have besides its own.
type Route struct {
	// To is a range of IPv4 addresses.
	To string `json:"to"`
	// Gateway is true when packets go through the default gateway of the interface that has the node's address, and not to the
	// destination directly.
	Gateway bool `json:"gateway,omitempty"`
}

// metadataRange is where the metadata services of clouds are.
const metadataRange = platform.MetadataAddress + "/32"

// routes are those to a cloud's metadata service. Windows loses them when networks of pods come and go, and then looks for the service
// on the interfaces of these networks, which have addresses of the same range.
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
