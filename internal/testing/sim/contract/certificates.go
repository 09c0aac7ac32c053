package contract

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// CertificatesFixture is a store of trusted certificates for one test. The fixture cleans up after the test. The keys of the
// tests' certificates, which are valid for an hour, are not stored.
type CertificatesFixture struct {
	Certificates hostapi.Certificates
}

// Certificates checks the contract of hostapi.Certificates.
func Certificates(t *testing.T, fixture func(t *testing.T) CertificatesFixture) {
	run(t, fixture, []test[CertificatesFixture]{
		{"AddedCertificatesAreListed", addedCertificatesAreListed},
		{"AddingTwiceChangesNothing", addingTwiceChangesNothing},
		{"OnlyNamedCertificateIsRemoved", onlyNamedCertificateIsRemoved},
		{"RemovingAbsentCertificateIsNoError", removingAbsentCertificateIsNoError},
		{"OneNameCanHaveTwoCertificates", oneNameCanHaveTwoCertificates},
		{"InvalidCertificatesAreRejected", invalidCertificatesAreRejected},
	})
}

// mustMake creates a self-signed certificate. All certificates of one name have the same serial number.
func mustMake(t *testing.T, name string) (der []byte, hash string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "WICD contract, " + name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	if der, err = x509.CreateCertificate(rand.Reader, template, template, key.Public(), key); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(der)
	return der, hex.EncodeToString(sum[:])
}

func mustTrust(t *testing.T, f CertificatesFixture, der []byte) {
	t.Helper()
	if added, err := f.Certificates.Add(deadline(t), der); err != nil || !added {
		t.Fatalf("Add() = %v, %v, want true, nil", added, err)
	}
}

func mustHashes(t *testing.T, f CertificatesFixture) []string {
	t.Helper()
	hashes, err := f.Certificates.List(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSorted(hashes) {
		t.Error("the list is not sorted")
	}
	return hashes
}

// expectHashes compares the list with an earlier one and what was added since.
func expectHashes(t *testing.T, f CertificatesFixture, before []string, added ...string) {
	t.Helper()
	want := slices.Concat(before, added)
	slices.Sort(want)
	if diff := cmp.Diff(want, mustHashes(t, f)); diff != "" {
		t.Errorf("trusted certificates (-want +got):\n%s", diff)
	}
}

func addedCertificatesAreListed(t *testing.T, f CertificatesFixture) {
	before := mustHashes(t, f)
	one, oneHash := mustMake(t, "one")
	two, twoHash := mustMake(t, "two")
	mustTrust(t, f, one)
	mustTrust(t, f, two)
	expectHashes(t, f, before, oneHash, twoHash)
}

func addingTwiceChangesNothing(t *testing.T, f CertificatesFixture) {
	item, _ := mustMake(t, "one")
	mustTrust(t, f, item)
	before := mustHashes(t, f)
	if added, err := f.Certificates.Add(deadline(t), item); err != nil || added {
		t.Errorf("second Add() = %v, %v, want false, nil", added, err)
	}
	expectHashes(t, f, before)
}

func onlyNamedCertificateIsRemoved(t *testing.T, f CertificatesFixture) {
	one, _ := mustMake(t, "one")
	two, twoHash := mustMake(t, "two")
	mustTrust(t, f, one)
	before := mustHashes(t, f)
	mustTrust(t, f, two)
	if removed, err := f.Certificates.Remove(deadline(t), twoHash); err != nil || !removed {
		t.Errorf("Remove() = %v, %v, want true, nil", removed, err)
	}
	expectHashes(t, f, before)
	mustTrust(t, f, two)
	expectHashes(t, f, before, twoHash)
}

func removingAbsentCertificateIsNoError(t *testing.T, f CertificatesFixture) {
	before := mustHashes(t, f)
	_, hash := mustMake(t, "one")
	if removed, err := f.Certificates.Remove(deadline(t), hash); err != nil || removed {
		t.Errorf("Remove() = %v, %v, want false, nil", removed, err)
	}
	expectHashes(t, f, before)
}

// oneNameCanHaveTwoCertificates happens when a CA changes its key: for a while, both are trusted.
func oneNameCanHaveTwoCertificates(t *testing.T, f CertificatesFixture) {
	before := mustHashes(t, f)
	old, oldHash := mustMake(t, "one")
	renewed, renewedHash := mustMake(t, "one")
	mustTrust(t, f, old)
	mustTrust(t, f, renewed)
	expectHashes(t, f, before, oldHash, renewedHash)
	if removed, err := f.Certificates.Remove(deadline(t), oldHash); err != nil || !removed {
		t.Errorf("Remove() = %v, %v, want true, nil", removed, err)
	}
	expectHashes(t, f, before, renewedHash)
}

func invalidCertificatesAreRejected(t *testing.T, f CertificatesFixture) {
	before := mustHashes(t, f)
	der, _ := mustMake(t, "one")
	for what, bad := range map[string][]byte{
		"nothing":  nil,
		"text":     []byte("a certificate"),
		"PEM":      pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		"half":     der[:len(der)/2],
		"trailing": append(bytes.Clone(der), 0),
		"twice":    slices.Concat(der, der),
	} {
		if added, err := f.Certificates.Add(deadline(t), bad); err == nil || added {
			t.Errorf("%s: Add() = %v, %v, want an error", what, added, err)
		}
	}
	expectHashes(t, f, before)
}
