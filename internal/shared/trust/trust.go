// Package trust computes which certificates a Windows node must trust. It has no I/O.
//
// Collect merges the bundles of users and the cluster into one list, and reports everything in them that is not in the
// list. Encode and Read transfer the list to nodes: the same certificates always give the same text.
//
// All certificates are accepted, not only those of authorities: users add the self-signed certificate of a registry to
// the bundle, and both Go's verifier and that of Windows trust a server whose own certificate is a root.
package trust

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Bundle is PEM text from a user or the cluster.
type Bundle struct {
	// Name is its source for messages: object and key.
	Name string
	PEM  string
}

// Certificate is one certificate.
type Certificate struct {
	DER []byte
	// SHA256 of DER, 64 digits in lower case.
	SHA256 string
	// Subject in the format of RFC 2253. It may be empty.
	Subject             string
	NotBefore, NotAfter time.Time
}

// List is the result of Collect. Each block of the bundles is a certificate of the list, a duplicate of one, or a
// problem: their number is len(Certificates) + Duplicates + len(Problems). Text without any block counts as one.
type List struct {
	// Certificates without duplicates, sorted by SHA256.
	Certificates []Certificate
	Duplicates   int
	// Problems are what was left out, in the order of the bundles.
	Problems []Remark
	// Notices are about certificates in the list that do not work as they are.
	Notices []Remark
}

// Remark is about one block of a bundle.
type Remark struct {
	Bundle string
	// Line at which the block begins, counted from 1.
	Line int
	// Message names the fault and the remedy. It contains nothing of a private key.
	Message string
}

func (r Remark) String() string { return fmt.Sprintf("%s, line %d: %s", r.Bundle, r.Line, r.Message) }

// Collect reads all bundles completely. Certificates that have expired at now are left out. Those that are not yet
// valid are kept, because a replacement for an authority is published in advance.
func Collect(now time.Time, bundles ...Bundle) List {
	c := collector{now: now, seen: map[string]bool{}}
	for _, b := range bundles {
		found := scan(b.PEM)
		if len(found) == 0 && hasText(b.PEM) {
			c.problem(b.Name, 1, "no certificate found; write it as PEM, beginning with -----BEGIN CERTIFICATE-----")
		}
		for _, block := range found {
			c.take(b.Name, block)
		}
	}
	c.noticeMissingIssuers()
	slices.SortFunc(c.list.Certificates, func(a, b Certificate) int { return cmp.Compare(a.SHA256, b.SHA256) })
	return c.list
}

// Encode returns certificates as PEM, in the given order, and nothing else.
func Encode(certificates []Certificate) string {
	var b strings.Builder
	for _, c := range certificates {
		b.Write(pem.EncodeToMemory(&pem.Block{Type: certificate, Bytes: c.DER}))
	}
	return b.String()
}

// Read parses the output of Encode, or any PEM file: all certificates in the order of the file, including expired ones,
// because a node with a wrong clock must not lose any. Keys and other blocks are skipped. If a certificate cannot be
// parsed, it returns an error with the line number, and no list.
func Read(text string) ([]Certificate, error) {
	var all []Certificate
	for _, b := range scan(text) {
		if b.label != certificate && (b.isKey || b.wrong == "") {
			continue
		}
		c, err := b.parse()
		if err != nil {
			return nil, fmt.Errorf("reading certificates: line %d: %w", b.line, err)
		}
		all = append(all, describe(c))
	}
	return all, nil
}

func describe(c *x509.Certificate) Certificate {
	sum := sha256.Sum256(c.Raw)
	return Certificate{
		DER:       c.Raw,
		SHA256:    hex.EncodeToString(sum[:]),
		Subject:   c.Subject.String(),
		NotBefore: c.NotBefore,
		NotAfter:  c.NotAfter,
	}
}

// parse returns the certificate of a block, or why there is none.
func (b block) parse() (*x509.Certificate, error) {
	switch {
	case b.wrong != "":
		return nil, fmt.Errorf("invalid PEM block: %s", b.wrong)
	case b.label != certificate:
		return nil, fmt.Errorf("PEM block has type %.60q; only CERTIFICATE is allowed", b.label)
	}
	c, err := x509.ParseCertificate(b.data)
	if err != nil {
		return nil, fmt.Errorf("parsing a certificate: %.200s", err.Error()) // truncated: it may quote the certificate
	}
	return c, nil
}

// collector builds a List.
type collector struct {
	now   time.Time
	list  List
	seen  map[string]bool // by SHA256
	taken []taken
}

// taken is a certificate of the list and where it was found first.
type taken struct {
	bundle string
	line   int
	*x509.Certificate
}

func (c *collector) take(bundle string, b block) {
	if b.isKey {
		c.problem(bundle, b.line, "private key found: everyone who can read the bundle may have it; replace the key, and remove it from the bundle")
		return
	}
	parsed, err := b.parse()
	if err != nil {
		c.problem(bundle, b.line, err.Error())
		return
	}
	found := describe(parsed)
	switch {
	case c.now.After(found.NotAfter):
		c.problem(bundle, b.line, fmt.Sprintf("certificate %.200q expired on %s and is not trusted; replace or remove it", found.Subject, date(found.NotAfter)))
	case c.seen[found.SHA256]:
		c.list.Duplicates++
	default:
		c.seen[found.SHA256] = true
		c.list.Certificates = append(c.list.Certificates, found)
		c.taken = append(c.taken, taken{bundle, b.line, parsed})
		if c.now.Before(found.NotBefore) {
			c.notice(bundle, b.line, fmt.Sprintf("certificate %.200q is not valid before %s", found.Subject, date(found.NotBefore)))
		}
	}
}

// noticeMissingIssuers reports certificates that are not self-signed and whose issuer is missing. On Windows, a chain
// must end at a self-signed certificate: Go programs there report an unknown authority for certificates that such a
// certificate has signed.
func (c *collector) noticeMissingIssuers() {
	subjects := map[string]bool{}
	for _, t := range c.taken {
		subjects[string(t.RawSubject)] = true
	}
	for _, t := range c.taken {
		if !bytes.Equal(t.RawIssuer, t.RawSubject) && !subjects[string(t.RawIssuer)] {
			c.notice(t.bundle, t.line, fmt.Sprintf("certificate %.200q is not self-signed; Windows trusts it only if it trusts its issuer %.200q, which is not in any bundle: add the issuer", t.Subject, t.Issuer))
		}
	}
}

func (c *collector) problem(bundle string, line int, message string) {
	c.list.Problems = append(c.list.Problems, Remark{bundle, line, message})
}

func (c *collector) notice(bundle string, line int, message string) {
	c.list.Notices = append(c.list.Notices, Remark{bundle, line, message})
}

func date(t time.Time) string { return t.UTC().Format(time.RFC3339) }
