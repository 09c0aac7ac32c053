package mirrors

import (
	"errors"
	"fmt"
)

// Table determines where images are pulled from. It contains no secrets. Images that it does not cover are pulled
// from the registry in their name.
type Table struct {
	// Sources, sorted by prefix.
	Sources []Source `json:"sources,omitempty"`
	// IsRestricted allows only images in the Allowed scopes.
	IsRestricted bool     `json:"isRestricted,omitempty"`
	Allowed      []string `json:"allowed,omitempty"`
	// RestrictedBy names the object and the field that restrict it.
	RestrictedBy string `json:"restrictedBy,omitempty"`
	// CAs are bundles of certificates, as PEM.
	CAs []string `json:"cas,omitempty"`
}

// Source applies to images whose name begins with a prefix.
type Source struct {
	// Prefix is a registry, a repository, or *.example.com.
	Prefix string `json:"prefix"`
	// Mirrors apply to all references, in order. If there are none, Digests apply to references with a digest, and Tags
	// to the others.
	Mirrors []Location `json:"mirrors,omitempty"`
	Digests []Location `json:"digests,omitempty"`
	Tags    []Location `json:"tags,omitempty"`
	// Blocked means that the source itself is not contacted, not even as a mirror of others.
	Blocked bool `json:"blocked,omitempty"`
	// BlockedBy names the object and the field that block it.
	BlockedBy string `json:"blockedBy,omitempty"`
	// Insecure means that the source may be contacted without a valid certificate, or without TLS.
	Insecure bool `json:"insecure,omitempty"`
}

// Location is a registry or repository that replaces a prefix.
type Location struct {
	At       string `json:"at"`
	Insecure bool   `json:"insecure,omitempty"`
	// CA is the number of an additionally trusted bundle, counted from 1.
	CA int `json:"ca,omitempty"`
}

func (t Table) isEmpty() bool { return len(t.Sources) == 0 && !t.IsRestricted }

// Bounds of a Table. A host rejects tables beyond them.
const (
	maxSources   = 20000
	maxLocations = 100000
	maxCAs       = 2 << 20 // bytes of all bundles
	maxBy        = 512     // bytes of the name of an object and a field
)

// Check returns an error for a table that no node may have. Names are checked because they become files of
// containerd, and requests.
func (t Table) Check() error {
	locations, cas := 0, 0
	for _, ca := range t.CAs {
		cas += len(ca)
	}
	longestName := len(t.RestrictedBy)
	for _, s := range t.Sources {
		if err := checkScope(s.Prefix); err != nil {
			return err
		}
		longestName = max(longestName, len(s.BlockedBy))
		for _, list := range [][]Location{s.Mirrors, s.Digests, s.Tags} {
			locations += len(list)
			for _, l := range list {
				if r, err := parseRepository(l.At); err != nil || r.String() != l.At || l.CA < 0 || l.CA > len(t.CAs) {
					return fmt.Errorf("mirror %.256q of %s is invalid; allowed: registries and repositories", l.At, s.Prefix)
				}
			}
		}
	}
	for _, scope := range t.Allowed {
		if err := checkScope(scope); err != nil {
			return err
		}
	}
	for _, c := range []struct {
		what         string
		count, limit int
	}{
		{"sources with mirrors", len(t.Sources), maxSources}, {"allowed registries", len(t.Allowed), maxSources},
		{"mirrors", locations, maxLocations}, {"bytes of mirror CAs", cas, maxCAs}, {"bytes in the name of a field", longestName, maxBy},
	} {
		if c.count > c.limit {
			return fmt.Errorf("%d %s; at most %d are allowed", c.count, c.what, c.limit)
		}
	}
	return nil
}

func checkScope(text string) error {
	s, err := parseScope(text)
	if err == nil && s.String() != text {
		err = errors.New("not in its shortest form")
	}
	if err != nil {
		return fmt.Errorf("%.256q is not a registry: %w", text, err)
	}
	return nil
}
