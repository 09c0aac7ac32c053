package desired_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/trust"
)

// authorities returns n certificates as PEM, of about 2,600 bytes each, which compress poorly.
func authorities(t testing.TB, n int) string {
	t.Helper()
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	var b strings.Builder
	for i := range n {
		var noise []byte
		for len(noise) < 1400 {
			sum := sha256.Sum256(fmt.Append(noise, i))
			noise = append(noise, sum[:]...)
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 1)), Subject: pkix.Name{CommonName: fmt.Sprintf("authority %d", i), Organization: []string{strings.Repeat("x", 100)}},
			NotBefore: time.Unix(1e9, 0), NotAfter: time.Unix(4e9, 0), IsCA: true, BasicConstraintsValid: true, SubjectKeyId: noise,
		}
		der, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	return b.String()
}

// TestCertificatesRoundTrip: certificates are compressed only if they would not fit otherwise, so that nodes of versions
// without that key can read everything that was ever published for them.
func TestCertificatesRoundTrip(t *testing.T) {
	for name, test := range map[string]struct {
		certificates string
		key          string // with the certificates
	}{
		"none":                       {"", ""},
		"a few":                      {authorities(t, 3), "certificates"},
		"as many as fit":             {authorities(t, 390), "certificates"},
		"more than fit as they are":  {authorities(t, 480), "certificates.gz.base64"}, // https://github.com/defenseunicorns/uds-core/issues/2167
		"no certificates, but a few": {"nonsense", "certificates"},
	} {
		t.Run(name, func(t *testing.T) {
			node := desired.Node{Version: "1", Certificates: test.certificates}
			data, err := node.Data()
			if err != nil {
				t.Fatalf("%d bytes: %v", len(test.certificates), err)
			}
			for _, key := range []string{"certificates", "certificates.gz.base64"} {
				if _, found := data[key]; found != (key == test.key) {
					t.Errorf("of %d bytes, key %s exists: %v", len(test.certificates), key, found)
				}
			}
			again, err := desired.FromData(data)
			if err != nil || again.Certificates != test.certificates {
				t.Errorf("%d bytes are %d when read again (%v)", len(test.certificates), len(again.Certificates), err)
			}
			once, err := again.Data()
			if err != nil || fmt.Sprint(once) != fmt.Sprint(data) {
				t.Errorf("the decoded value is encoded differently (%v)", err)
			}
		})
	}
}

// TestOversizedNodeDataIsRejected: https://github.com/kubernetes/kubernetes/issues/83955
func TestOversizedNodeDataIsRejected(t *testing.T) {
	_, err := desired.Node{Certificates: authorities(t, 600)}.Data()
	if !errors.Is(err, desired.ErrTooLarge) || !strings.Contains(err.Error(), "key certificates.gz.base64: ") {
		t.Errorf("the error is %v", err)
	}
	if _, err := (desired.Node{Certificates: strings.Repeat("x", 1<<20)}).Data(); !errors.Is(err, desired.ErrTooLarge) {
		t.Errorf("an invalid certificate: error %v", err)
	}
}

func TestUnreadableCertificatesAreAnError(t *testing.T) {
	data, err := desired.Node{}.Data()
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"no Base64": "!", "cut": "H4sI", "no certificates": "H4sIAAAAAAAC/8tIzcnJBwCGphA2BQAAAA==", "nothing": "",
	} {
		data["certificates.gz.base64"] = value
		if node, err := desired.FromData(data); err == nil || !strings.Contains(err.Error(), "certificates.gz.base64") {
			t.Errorf("%s: %q (%v)", name, node.Certificates, err)
		}
	}
}

// TestOversizedBundlesAreNamed: the message must say which bundles to reduce.
func TestOversizedBundlesAreNamed(t *testing.T) {
	for name, n := range map[string]int{"more than can be published": 700, "more than nodes take": 1000} {
		t.Run(name, func(t *testing.T) {
			text := authorities(t, n)
			in := inputs()
			in.Settings.Now = time.Unix(2e9, 0)
			in.Settings.Bundles = []trust.Bundle{
				{Name: "ControllerConfig machine-config-controller, spec.imageRegistryBundleUserData, file r", PEM: text[:4000]},
				{Name: "ConfigMap trusted-ca, key ca-bundle.crt", PEM: text},
			}
			rendered, err := desired.Render(in)
			if err == nil {
				err = rendered.CheckSize()
			}
			if !errors.Is(err, desired.ErrSettings) || !errors.Is(err, desired.ErrTooLarge) {
				t.Fatalf("the error is %v", err)
			}
			want := fmt.Sprintf("certificates come from ConfigMap trusted-ca, key ca-bundle.crt: %d bytes; ControllerConfig machine-config-controller, "+
				"spec.imageRegistryBundleUserData, file r: 4000 bytes; remove those that Windows nodes do not need", len(text))
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v\ndoes not contain: %s", err, want)
			}
		})
	}
}

func FuzzPublishedCertificates(f *testing.F) {
	f.Add("H4sIAAAAAAAC/8tIzcnJBwCGphA2BQAAAA==")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		data, err := desired.Node{}.Data()
		if err != nil {
			t.Fatal(err)
		}
		data["certificates.gz.base64"] = text
		node, err := desired.FromData(data)
		if err != nil {
			if len(err.Error()) > 1000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		if len(node.Certificates) > 4<<20 {
			t.Errorf("%d bytes are %d", len(text), len(node.Certificates))
		}
		if list, err := trust.Read(node.Certificates); err != nil || trust.Encode(list) != node.Certificates {
			t.Errorf("hosts rejected them: %v", err)
		}
	})
}
