package host

import "context"

// HNSState are the numbers by which the Host Network Service is told to do something differently: DWORD values of key
// HKLM\SYSTEM\CurrentControlSet\Services\hns\State. Others set such values, too.
type HNSState interface {
	// Get returns a value. An absent one is ErrNotFound, also where Windows has no Host Network Service; one of another type is ErrNoNumber.
	Get(ctx context.Context, name string) (uint32, error)
	// Set gives a value a number. A Windows without the Host Network Service is ErrNotFound, and nothing is made.
	Set(ctx context.Context, name string, number uint32) error
	// Remove removes a value. An absent one is no error.
	Remove(ctx context.Context, name string) error
}
