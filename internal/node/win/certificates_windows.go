package win

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// certificates are those in the registry of the store LocalMachine\Root.
type certificates struct{}

// List implements hostapi.Certificates.
func (certificates) List(ctx context.Context) (hashes []string, err error) {
	err = withRoots(ctx, windows.CERT_STORE_READONLY_FLAG, func(r roots) error {
		return r.each(func(_ *windows.CertContext, der []byte) error {
			hashes = append(hashes, hashOf(der))
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("listing the certificates that this machine trusts: %w", err)
	}
	slices.Sort(hashes)
	return hashes, nil
}

// Add implements hostapi.Certificates.
func (certificates) Add(ctx context.Context, der []byte) (added bool, err error) {
	if _, err := x509.ParseCertificate(der); err != nil {
		return false, fmt.Errorf("trusting a certificate: it is invalid: %w", err)
	}
	err = withRoots(ctx, 0, func(r roots) error {
		found, err := r.find(hashOf(der))
		if err != nil {
			return err
		}
		defer release(found)
		added = len(found) == 0
		if !added {
			return nil
		}
		return r.add(der)
	})
	if err != nil {
		return false, fmt.Errorf("trusting certificate %s: %w", hashOf(der), err)
	}
	return added, nil
}

// Remove implements hostapi.Certificates.
func (certificates) Remove(ctx context.Context, hash string) (removed bool, err error) {
	err = withRoots(ctx, 0, func(r roots) error {
		found, err := r.find(hash)
		removed = len(found) > 0
		for _, c := range found {
			// It frees c, even if it fails.
			err = errors.Join(err, windows.CertDeleteCertificateFromStore(c))
		}
		return err
	})
	if err != nil {
		return false, fmt.Errorf("removing certificate %s from the trusted roots: %w", hash, err)
	}
	return removed, nil
}

func hashOf(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// roots is the open store.
type roots struct{ handle windows.Handle }

// withRoots opens the store for a function. It is the physical store in the registry. The logical store also shows the certificates of Windows' own
// list, group policies and smart cards: so none of those can be removed, and changes to them do not affect managed certificates. See "Logical and
// Physical Stores" in Microsoft's documentation.
func withRoots(ctx context.Context, flags uint32, use func(roots) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	name, err := windows.UTF16PtrFromString("Root")
	if err != nil {
		return err
	}
	store, err := windows.CertOpenStore(windows.CERT_STORE_PROV_SYSTEM_REGISTRY_W, 0, 0,
		windows.CERT_SYSTEM_STORE_LOCAL_MACHINE|flags, uintptr(unsafe.Pointer(name)))
	runtime.KeepAlive(name)
	if err != nil {
		return fmt.Errorf(`opening the store LocalMachine\Root: %w`, err)
	}
	defer func() { err = errors.Join(err, windows.CertCloseStore(store, 0)) }()
	return use(roots{store})
}

// each calls a function for each certificate, which is valid until the function returns.
func (r roots) each(visit func(c *windows.CertContext, der []byte) error) error {
	var c *windows.CertContext
	for {
		next, err := windows.CertEnumCertificatesInStore(r.handle, c) // frees c
		if errors.Is(err, syscall.Errno(windows.CRYPT_E_NOT_FOUND)) {
			return nil
		}
		if err != nil {
			return err
		}
		c = next
		if err := visit(c, unsafe.Slice(c.EncodedCert, c.Length)); err != nil {
			return errors.Join(err, windows.CertFreeCertificateContext(c))
		}
	}
}

// find returns the certificates with this SHA-256; Windows stores at most one. They must be released.
func (r roots) find(hash string) (found []*windows.CertContext, err error) {
	err = r.each(func(c *windows.CertContext, der []byte) error {
		if hashOf(der) == hash {
			found = append(found, windows.CertDuplicateCertificateContext(c))
		}
		return nil
	})
	return found, err
}

func release(found []*windows.CertContext) {
	for _, c := range found {
		_ = windows.CertFreeCertificateContext(c)
	}
}

// add adds a certificate that is not in the store. Windows must not check for duplicates itself: by its rules (CERT_STORE_ADD_NEW,
// CERT_STORE_ADD_REPLACE_EXISTING), a certificate with the same issuer and serial number is the same.
func (r roots) add(der []byte) error {
	c, err := windows.CertCreateCertificateContext(windows.X509_ASN_ENCODING, &der[0], uint32(len(der)))
	if err != nil {
		return err
	}
	if !bytes.Equal(unsafe.Slice(c.EncodedCert, c.Length), der) {
		err = errors.New("Windows reads another certificate from its bytes")
	} else {
		err = windows.CertAddCertificateContextToStore(r.handle, c, windows.CERT_STORE_ADD_ALWAYS, nil)
	}
	return errors.Join(err, windows.CertFreeCertificateContext(c))
}
