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
