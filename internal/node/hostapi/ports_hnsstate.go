package hostapi

import "context"

// HNSState are settings of the Host Network Service: DWORD values of key HKLM\SYSTEM\CurrentControlSet\Services\hns\State. Other programs set such
// values, too.
type HNSState interface {
	// Get returns a value. An absent one is ErrNotFound, even if Windows has no Host Network Service. A value of another type is ErrNoNumber.
	Get(ctx context.Context, name string) (uint32, error)
	// Set sets a value. Without the Host Network Service, it returns ErrNotFound and creates nothing.
	Set(ctx context.Context, name string, number uint32) error
	// Remove removes a value. An absent one is not an error.
	Remove(ctx context.Context, name string) error
}
