package credentials_test

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/credentials"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// openRights implements rights that protect nothing.
type openRights struct{ hostapi.Rights }

func (openRights) Check(string, hostapi.Access) (bool, string, error) { return true, "", nil }

func TestRegistryCertificatesAreRenewedBeforeExpiry(t *testing.T) {
	h, now := hostapi.Host{Disk: hostapi.Disk{Root: t.TempDir()}, Rights: openRights{}}, time.Now()
	ensurePair := func(at time.Time, wantMade bool) credentials.RegistryEndpoint {
		t.Helper()
		e, made, err := credentials.MakeRegistry(h, at)
		if err != nil || made != wantMade {
			t.Fatalf("created is %t (%v), want %t", made, err, wantMade)
		}
		if read, err := credentials.ReadRegistry(h.Disk); err != nil || read != e {
			t.Errorf("another one is read (%v)", err)
		}
		for _, pair := range []credentials.KeyPair{e.Server, e.Client} {
			if _, err := tls.X509KeyPair([]byte(pair.PEM()), []byte(pair.PEM())); err != nil {
				t.Error(err)
			}
		}
		return e
	}
	first := ensurePair(now, true)
	if again := ensurePair(now.AddDate(9, 0, 0), false); again != first {
		t.Error("certificates are renewed years before they expire")
	}
	next := ensurePair(now.AddDate(10, 0, -20), true)
	if next.Server == first.Server || next.Client == first.Client {
		t.Error("one of the certificates was not renewed")
	}
	for name, content := range map[string]string{
		"nothing":                     "",
		"the key of a former version": `{"key": "` + strings.Repeat("A", 52) + `", "certificate": "x", "privateKey": "y"}`,
		"certificates without keys":   `{"server": {"certificate": "x"}, "client": {}}`,
	} {
		if _, err := h.Disk.WriteFile(credentials.RegistryFile, content); err != nil {
			t.Fatal(err)
		}
		_, err := credentials.ReadRegistry(h.Disk)
		if err == nil || !strings.Contains(err.Error(), credentials.RegistryFile) || strings.Contains(err.Error(), "AAAA") {
			t.Errorf("with %s: %v", name, err)
		}
		ensurePair(now, true)
	}
}
