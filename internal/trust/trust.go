// Package trust says, purely, which certificates a Windows node must trust.
//
// Collect makes one list of the bundles that users and the cluster have written, and names everything in them that is
// not in the list. Encode and Read carry the list to the nodes: the same certificates are always the same text.
//
// Any certificate is taken, not only those of authorities: users put the self-signed certificate of a registry into the
// bundle, and both Go's verifier and that of Windows trust a server whose own certificate is a root.
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

// Bundle is PEM text that somebody wrote.
type Bundle struct {
	// Name says for messages where it was read: object and key.
	Name string
	PEM  string
}

// Certificate is one certificate.
type Certificate struct {
	DER []byte
	// SHA256 of DER, 64 digits in lower case.
	SHA256 string
	// Subject as RFC 2253 writes it. It may be empty.
	Subject             string
	NotBefore, NotAfter time.Time
}

// List is what bundles amount to. Each block in them is either a certificate of the list, or the duplicate of one, or a
// problem: len(Certificates) + Duplicates + len(Problems) is their number. Text without any block counts as one.
type List struct {
	// Certificates without duplicates, sorted by SHA256.
	Certificates []Certificate
	Duplicates   int
	// Problems are what was left out, in the order of the bundles.
	Problems []Remark
	// Notices are about certificates in the list that do not work as they are.
	Notices []Remark
}

// Remark is about one place of a bundle.
type Remark struct {
	Bundle string
	// Line at which the block begins, counted from 1.
	Line int
	// Message says what is wrong and what to do. It holds nothing of a private key.
	Message string
}

func (r Remark) String() string { return fmt.Sprintf("%s, line %d: %s", r.Bundle, r.Line, r.Message) }

// Collect reads all bundles to their ends. Certificates that have expired at now are left out. Those that are not yet
// valid are taken, since whoever replaces an authority publishes the new one first.
func Collect(now time.Time, bundles ...Bundle) List {
	c := collector{now: now, seen: map[string]bool{}}
	for _, b := range bundles {
		found := scan(b.PEM)
		if len(found) == 0 && hasText(b.PEM) {
			c.problem(b.Name, 1, "there is no certificate in this text; write it as PEM, beginning with -----BEGIN CERTIFICATE-----")
		}
		for _, block := range found {
			c.take(b.Name, block)
		}
	}
	c.noticeMissingIssuers()
	slices.SortFunc(c.list.Certificates, func(a, b Certificate) int { return cmp.Compare(a.SHA256, b.SHA256) })
	return c.list
}

// Encode writes certificates as PEM, in the order given, and nothing else.
func Encode(certificates []Certificate) string {
	var b strings.Builder
	for _, c := range certificates {
		b.Write(pem.EncodeToMemory(&pem.Block{Type: certificate, Bytes: c.DER}))
	}
	return b.String()
}

// Read reads what Encode wrote, or any PEM file: all certificates in the order of the file, also those that have
// expired, since a node whose clock is wrong must not lose any. Keys and other blocks are passed over. When a
// certificate cannot be read the error names its line, and there is no list.
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

// parse gives the certificate of a block, or says why there is none.
func (b block) parse() (*x509.Certificate, error) {
	switch {
	case b.wrong != "":
		return nil, fmt.Errorf("a block cannot be read, because %s", b.wrong)
	case b.label != certificate:
		return nil, fmt.Errorf("a block is %.60q; only CERTIFICATE is allowed", b.label)
	}
	c, err := x509.ParseCertificate(b.data)
	if err != nil {
		return nil, fmt.Errorf("a certificate cannot be read: %.200s", err.Error()) // cut: it may quote the certificate
	}
	return c, nil
}

// collector is a List that grows.
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
		c.problem(bundle, b.line, "THIS IS A PRIVATE KEY: everybody who can read the bundle has seen it; replace the key, and remove it from the bundle")
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

// noticeMissingIssuers is about certificates that were issued by others than themselves. Windows ends a chain only at a
// self-signed certificate: Go programs there report an unknown authority for what such a certificate has signed.
func (c *collector) noticeMissingIssuers() {
	subjects := map[string]bool{}
	for _, t := range c.taken {
		subjects[string(t.RawSubject)] = true
	}
	for _, t := range c.taken {
		if !bytes.Equal(t.RawIssuer, t.RawSubject) && !subjects[string(t.RawIssuer)] {
			c.notice(t.bundle, t.line, fmt.Sprintf("certificate %.200q is not self-signed; Windows trusts it only where it trusts its issuer %.200q, which is not in any bundle: add that", t.Subject, t.Issuer))
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
