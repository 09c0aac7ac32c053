package acceptance

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

// certificateFor creates a server certificate that is signed by authority, or self-signed if authority is nil.
func certificateFor(name string, authority *x509.Certificate, by *rsa.PrivateKey) (*x509.Certificate, *rsa.PrivateKey, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	c := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), BasicConstraintsValid: true, IsCA: authority == nil,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if authority == nil {
		authority, by = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, authority, key.Public(), by)
	if err != nil {
		return nil, nil, err
	}
	c, err = x509.ParseCertificate(der)
	return c, key, err
}

func tryRoot(ctx context.Context, s *session) (string, error) {
	root, key, err := certificateFor("WMCO acceptance", nil, nil)
	if err != nil {
		return "", untriedErrorf("%w", err)
	}
	server, _, err := certificateFor("acceptance.example", root, key)
	if err != nil {
		return "", untriedErrorf("%w", err)
	}
	verify := func() error {
		_, err := server.Verify(x509.VerifyOptions{DNSName: "acceptance.example"})
		return err
	}
	if verify() == nil {
		return "", errors.New("the certificate is trusted before its root is added")
	}
	sum := sha256.Sum256(root.Raw)
	err = s.change(change{kindCertificate, hex.EncodeToString(sum[:])}, func() error {
		_, err := s.Host.Certificates.Add(ctx, root.Raw)
		return err
	})
	if err != nil {
		return "", err
	}
	const trustTimeout = 10 * time.Second
	began := time.Now()
	for err = verify(); err != nil && time.Since(began) < trustTimeout && ctx.Err() == nil; err = verify() {
		time.Sleep(trustTimeout / 20)
	}
	if err != nil {
		return "", fmt.Errorf("the certificate is not trusted after %s: %w", trustTimeout, err)
	}
	return fmt.Sprintf("trusted after %.1f s", time.Since(began).Seconds()), nil
}

// updateService is where Windows downloads root certificates that it does not have.
const updateService = "ctldl.windowsupdate.com:80"

func tryLookup(ctx context.Context, _ *session) (string, error) {
	own, _, err := certificateFor("localhost", nil, nil)
	if err != nil {
		return "", untriedErrorf("%w", err)
	}
	roots, err := x509.SystemCertPool() // as containerd does for a registry with its own certificate
	if err != nil {
		return "", untriedErrorf("%w", err)
	}
	roots.AddCert(own)
	began := time.Now()
	_, err = own.Verify(x509.VerifyOptions{DNSName: "localhost", Roots: roots})
	duration := time.Since(began).Round(time.Millisecond)
	if err != nil {
		return "", err
	}
	if duration >= time.Second {
		return "", fmt.Errorf("it took %s", duration)
	}
	if c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", updateService); err == nil {
		return "", errors.Join(c.Close(), untriedErrorf("this network is not closed: %s answers (it took %s)", updateService, duration))
	}
	return fmt.Sprintf("it took %s, and %s does not answer", duration, updateService), nil
}
