package hostnetwork

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	"github.com/windows-machine-config/wmco/internal/shared/strictjson"
)

// Limits of a record.
const (
	// MaxRecord is the maximum size of a record in bytes.
	MaxRecord = 64 << 10

	maxAddresses = 256
	maxText      = 256
)

// Phase is a host's progress with its first network.
type Phase string

// The phases.
const (
	// Making lasts from before the creation of the first network until the host has its settings again.
	Making Phase = "making"
	// Made means that the host has kept its settings, or has them again.
	Made Phase = "made"
	// Changed means that the host has its address, but lacks other settings that could not be restored.
	Changed Phase = "changed"
	// Lost means that the host did not get its address back: the network is removed, and not created again.
	Lost Phase = "lost"
)

// Record is what must survive a restart between the creation of the first network and the comparison after it.
type Record struct {
	Phase Phase `json:"phase"`
	// Address is the host's address, Before the adapter that had it before the first network.
	Address netip.Addr `json:"address"`
	Before  Adapter    `json:"before"`
	// Instead describes what the host had instead of its address; set when that is lost.
	Instead string `json:"instead,omitempty"`
}

// Encode formats a record that Decode accepts: it truncates what exceeds the limits.
func Encode(r Record) []byte {
	cut := func(text *string) {
		*text = strings.ToValidUTF8((*text)[:min(len(*text), maxText)], "")
	}
	for _, text := range []*string{&r.Before.Name, &r.Before.Suffix, &r.Instead} {
		cut(text)
	}
	r.Before.Addresses = r.Before.Addresses[:min(len(r.Before.Addresses), maxAddresses)]
	r.Before.DNS = r.Before.DNS[:min(len(r.Before.DNS), maxAddresses)]
	b, _ := json.Marshal(r) // strings and numbers cannot fail
	return b
}

// Decode parses the output of Encode, and rejects everything else.
func Decode(b []byte) (Record, error) {
	if len(b) > MaxRecord {
		return Record{}, fmt.Errorf("the record has %d bytes, and at most %d are allowed", len(b), MaxRecord)
	}
	var r Record
	if err := strictjson.Unmarshal(b, &r); err != nil {
		return Record{}, fmt.Errorf("reading the record: %w", err)
	}
	switch r.Phase {
	case Making, Made, Changed, Lost:
	default:
		return Record{}, fmt.Errorf("the record has the phase %.20q, want %s, %s, %s or %s", r.Phase, Making, Made, Changed, Lost)
	}
	if !r.Address.Is4() || !r.Before.has(r.Address) {
		return Record{}, fmt.Errorf("the record has the address %q, but its adapter does not", r.Address)
	}
	for _, a := range r.Before.Addresses {
		if !a.Prefix.IsValid() || !a.Prefix.Addr().Is4() {
			return Record{}, fmt.Errorf("the record has the address %q; an IPv4 address with a prefix length is needed", a.Prefix)
		}
	}
	if len(r.Before.Addresses) > maxAddresses || len(r.Before.DNS) > maxAddresses || max(len(r.Before.Name), len(r.Before.Suffix), len(r.Instead)) > maxText {
		return Record{}, fmt.Errorf("the record has %d addresses and %d DNS servers, at most %d are allowed, or a text of more than %d bytes",
			len(r.Before.Addresses), len(r.Before.DNS), maxAddresses, maxText)
	}
	return r, nil
}
