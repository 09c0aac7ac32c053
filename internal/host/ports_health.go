package host

import "context"

// Memory is that of the machine.
type Memory interface {
	// Commit returns how much memory programs were promised, and how much Windows can promise: the physical memory and the paging
	// files. It is quick.
	Commit(ctx context.Context) (Commit, error)
}

// Commit is what Windows calls the commit charge and its limit, in bytes. The limit grows when a paging file does.
type Commit struct{ Used, Limit uint64 }

// Accounts is what a host needs so that its containers can have group Managed Service Accounts (gMSA).
type Accounts interface {
	// Domain returns the name of the domain that the host is joined to, as Windows spells it; empty where it is joined to none.
	Domain(ctx context.Context) (string, error)
	// Plugins returns the class IDs of the plugins for Container Credential Guard that are registered and whose class exists, sorted: GUIDs
	// in braces and upper case. With one of them, a host needs no domain. There are at most MaxPlugins.
	Plugins(ctx context.Context) ([]string, error)
}

// MaxPlugins is how many plugins are returned. Hosts have one, or none.
const MaxPlugins = 16
