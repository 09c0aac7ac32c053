package win

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"net/netip"
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/testing/sim/contract"
)

// asCleaner makes TestKilledRunLeftoversAreRemoved create nothing before it removes leftovers. wmco-acceptance sets it.
const asCleaner = "WICD_TEST_CLEAN_UP"

// TestKilledRunLeftoversAreRemoved removes what killed tests of this package leave on a machine.
func TestKilledRunLeftoversAreRemoved(t *testing.T) {
	h := mustHost(t)
	if os.Getenv(asCleaner) == "" {
		s, _ := mustServe(t, "runs")
		mustStart(t, s)
		authority, _ := mustSign(t)
		if _, err := h.Certificates.Add(t.Context(), authority); err != nil {
			t.Fatal(err)
		}
	}
	mustOpenEnvironment(t, contract.Variables()...)
	for _, name := range append(contract.Names(), testName) {
		mustRemove(t, h.Services, name)
	}
	for _, c := range testAuthorities(t) {
		hash := sha256.Sum256(c.Raw)
		if _, err := h.Certificates.Remove(t.Context(), hex.EncodeToString(hash[:])); err != nil {
			t.Error(err)
		}
	}
	if windows.NewLazySystemDLL("iphlpapi.dll").NewProc("DeleteIpForwardEntry2").Find() == nil {
		mustRemoveRoutes(t, netip.MustParsePrefix(contract.Destination))
	}
	if left := testAuthorities(t); len(left) > 0 {
		t.Errorf("%d test certificates remain", len(left))
	}
	if left, err := h.Services.List(t.Context(), append(contract.Names(), testName)); err != nil || len(left) > 0 {
		t.Errorf("test services remain: %v, %v", left, err)
	}
}

// testAuthorities returns the roots of this machine with a name that the tests use.
func testAuthorities(t *testing.T) (found []*x509.Certificate) {
	t.Helper()
	store, err := windows.UTF16PtrFromString("ROOT")
	if err != nil {
		t.Fatal(err)
	}
	h, err := windows.CertOpenStore(windows.CERT_STORE_PROV_SYSTEM_W, 0, 0, windows.CERT_SYSTEM_STORE_LOCAL_MACHINE|windows.CERT_STORE_READONLY_FLAG,
		uintptr(unsafe.Pointer(store)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = windows.CertCloseStore(h, 0) }()
	var entry *windows.CertContext
	for {
		entry, err = windows.CertEnumCertificatesInStore(h, entry)
		if err != nil || entry == nil {
			return found
		}
		c, err := x509.ParseCertificate(append([]byte(nil), unsafe.Slice(entry.EncodedCert, entry.Length)...))
		if err == nil && (strings.HasPrefix(c.Subject.CommonName, "WICD contract") || strings.HasPrefix(c.Subject.CommonName, "WICD test")) {
			found = append(found, c)
		}
	}
}
