package hostapi

import "net"

// Pipes are the named pipes on which this process listens.
type Pipes interface {
	// Listen creates a pipe, such as \\.\pipe\wicd-policy, that only SYSTEM and Administrators of this host can use. While another process or
	// listener has a pipe of that name, or a connection of it is open, it is an error: no two listeners share the clients of a name. Closing the
	// listener ends Accept, but not the connections.
	Listen(name string) (net.Listener, error)
}
