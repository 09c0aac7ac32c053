package hostapi

import "context"

// Commit is the commit charge of Windows and its limit, in bytes. The limit grows with the paging file.
type Commit struct{ Used, Limit uint64 }

// Accounts is what the host's containers need for group Managed Service Accounts (gMSA).
type Accounts interface {
	// Domain returns the name of the host's domain in the spelling of Windows; empty if the host is in none.
	Domain(ctx context.Context) (string, error)
	// Plugins returns the class IDs of the registered plugins for Container Credential Guard whose class exists, sorted: upper-case GUIDs in braces.
	// With one of them, a host needs no domain. It returns at most MaxPlugins.
	Plugins(ctx context.Context) ([]string, error)
}

// MaxPlugins limits the plugins that are returned. Hosts have one or none.
const MaxPlugins = 16
