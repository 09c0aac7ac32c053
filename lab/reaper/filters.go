//go:build linux

package main

import (
	"errors"
	"fmt"
	"sync"

	"github.com/windows-machine-config/wmco/lab/windows/balancer"
	"github.com/windows-machine-config/wmco/lab/windows/hns"
)

// filters are the tables of the kernel that enforce ACLs of endpoints. Unlike load balancers, they are in force before the call of the
// network service that changes them returns.
type filters struct {
	nft string // the program; empty if there is none

	mu      sync.Mutex
	applied map[string]string
}

// apply makes the kernel's tables those of the host's network service.
func (f *filters) apply(store *hns.Store) error {
	endpoints, err := store.List(hns.Endpoint, "")
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	wanted := balancer.Filters(endpoints)
	script := balancer.Changes(f.applied, wanted)
	if script == "" {
		return nil
	}
	if f.nft == "" {
		return errors.New("applying ACLs of endpoints: this machine has no program nft")
	}
	if err := nft(f.nft, script); err != nil {
		return fmt.Errorf("applying ACLs of endpoints: %w", err)
	}
	f.applied = wanted
	return nil
}
