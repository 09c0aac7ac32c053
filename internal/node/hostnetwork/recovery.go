package hostnetwork

import (
	"fmt"
	"net/netip"
	"strings"
	"time"
)

const (
	// restoreAfter is how long Windows may take to configure the virtual adapter after it has the host's address. reportAfter is when settings that are
	// still missing are reported.
	restoreAfter = 10 * time.Second
	reportAfter  = 30 * time.Second
)

// Begin returns the record of a host whose first network is about to be created. After an interrupted attempt, the settings from before that attempt
// are kept. found is false if no adapter has the address.
func (r Record) Begin(all []Adapter, address netip.Addr) (begun Record, found bool) {
	before, found := With(all, address)
	if r.Phase == Making && r.Address == address {
		before = r.Before
	}
	return Record{Phase: Making, Address: address, Before: before}, found
}

// Recovery is the time after the creation of the first network in which the host gets its settings again. The zero value is its start.
type Recovery struct {
	// since is when the host's address was found.
	since time.Time
	// restored is set after restoring the settings was attempted.
	restored bool
}

// Reset restarts the waiting times: the host has no address.
func (c *Recovery) Reset() { c.since = time.Time{} }

// Step is what to do about a host that has its address.
type Step struct {
	// Phase is the new phase of the record.
	Phase Phase
	// Restore are settings to restore now. Missing are settings to report.
	Restore, Missing Loss
}

// Step compares the settings of a host that has its address with the record, whose phase is Making or Changed. Settings are restored once, and only
// if that is allowed: what is changed later is not reverted.
func (c *Recovery) Step(r Record, all []Adapter, at time.Time, mayRestore bool) Step {
	if c.since.IsZero() {
		c.since = at
	}
	now, _ := With(all, r.Address)
	lost, passed := Compare(r.Before, now, all), at.Sub(c.since)
	switch {
	case lost.IsEmpty() && r.Phase == Making && passed < restoreAfter && !c.restored: // Windows may still change it
		return Step{Phase: Making}
	case lost.IsEmpty():
		return Step{Phase: Made}
	case r.Phase != Making || passed >= reportAfter && (c.restored || !mayRestore):
		return Step{Phase: Changed, Missing: lost}
	case passed >= restoreAfter && !c.restored && mayRestore:
		c.restored = true
		return Step{Phase: Making, Restore: lost}
	}
	return Step{Phase: Making}
}

// Message describes settings that are missing and why they were not restored, if that is known. file is the record.
func (r Record) Message(missing Loss, why, file string) string {
	if why != "" {
		why = " (" + why + ")"
	}
	return fmt.Sprintf("creating the first network of the host removed settings of its adapter %q that are still missing: %s%s; "+
		"set them on the adapter that has %s now, or delete %s on the host if they are not needed", r.Before.Name, missing, why, r.Address, file)
}

// Present lists the IPv4 addresses that the host has.
func Present(all []Adapter) string {
	var parts []string
	for _, a := range all {
		for _, existing := range a.Addresses {
			if existing.Prefix.Addr().Is4() {
				parts = append(parts, fmt.Sprintf("%s on %q", existing.Prefix, a.Name))
			}
		}
	}
	if len(parts) == 0 {
		return "no address"
	}
	return strings.Join(parts, ", ")
}
