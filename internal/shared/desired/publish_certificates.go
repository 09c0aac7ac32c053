package desired

import (
	"bytes"
	"compress/gzip"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"

	"github.com/windows-machine-config/wmco/internal/shared/trust"
)

// Certificates are published as readable PEM if everything fits. Otherwise they are compressed under another key, as DER, because Base64
// compresses poorly. Versions that do not know that key never published this much: their data fits uncompressed.

// compressCertificates moves the certificates of data to the key for compressed ones. Text that would not survive the round trip stays as
// is.
func compressCertificates(data map[string]string) error {
	text := data[keyCertificate]
	list, _ := trust.Read(text) // text that cannot be read fails the comparison
	if text == "" || trust.Encode(list) != text {
		return nil
	}
	var der bytes.Buffer
	for _, c := range list {
		der.Write(c.DER)
	}
	compressed, err := compress(der.Bytes())
	if err != nil {
		return fmt.Errorf("writing key %s: %w", keyCompressedCertificates, err)
	}
	delete(data, keyCertificate)
	data[keyCompressedCertificates] = compressed
	return nil
}

func readCertificates(data map[string]string) (string, error) {
	compressed, exists := data[keyCompressedCertificates]
	if !exists {
		return data[keyCertificate], nil
	}
	der, err := decompress(compressed, maxContent)
	if err != nil {
		return "", fmt.Errorf("reading key %s: %w", keyCompressedCertificates, err)
	}
	list, err := x509.ParseCertificates(der)
	if err != nil {
		return "", fmt.Errorf("reading key %s: %w", keyCompressedCertificates, err)
	}
	var found []trust.Certificate
	for _, c := range list {
		found = append(found, trust.Certificate{DER: c.Raw})
	}
	return trust.Encode(found), nil
}

// compress returns bytes as text: gzip in Base64. The same bytes always give the same text.
func compress(b []byte) (string, error) {
	var to bytes.Buffer
	z, _ := gzip.NewWriterLevel(&to, gzip.BestCompression) // a valid level
	_, err := z.Write(b)
	if err := errors.Join(err, z.Close()); err != nil {
		return "", fmt.Errorf("compressing: %w", err)
	}
	return base64.StdEncoding.EncodeToString(to.Bytes()), nil
}

// decompress reads what compress wrote. It returns an error for more than limit bytes.
func decompress(text string, limit int64) ([]byte, error) {
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader([]byte(text))))
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(z, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("more than %d bytes when decompressed", limit)
	}
	return b, err
}
