package registry

import (
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/credentials"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// TestRenewedCertificatesAreUsed without a new session: drift correction re-creates missing ones.
func TestRenewedCertificatesAreUsed(t *testing.T) {
	w := newWorld(t, entries("", "", "first.test"), "", map[string]http.Handler{"first.test": newFakeRegistry("app").tag("1", manifest)})
	h := hostapi.Host{Disk: hostapi.Disk{Root: t.TempDir()}, Rights: openRights{}}
	p := Part{
		Session: state.Session{Host: h, Wanted: desired.Node{Registries: w.config.Table, Certificates: w.config.Certificates}, Log: slog.New(slog.DiscardHandler)},
		Server:  w.server,
	}
	if err := p.useConfig(); err == nil {
		t.Error("nothing is missing without certificates")
	}
	w.expect(http.MethodGet, "app/manifests/1", http.StatusOK, manifest)
	former := certificateOf(t, w.config.Endpoint.Client)
	for _, at := range []time.Time{time.Now().AddDate(-10, 0, 10), time.Now()} {
		endpoint, made, err := credentials.MakeRegistry(h, at)
		if err != nil || !made {
			t.Fatalf("created is %t (%v)", made, err)
		}
		if err := p.useConfig(); err != nil {
			t.Fatal(err)
		}
		w.config.Endpoint = endpoint
		if r := w.requestAs(former, http.MethodGet, "app/manifests/1"); r.status != http.StatusUnauthorized {
			t.Errorf("with the former certificate, the status is %d (%v)", r.status, r.err)
		}
		former = certificateOf(t, endpoint.Client)
		w.expect(http.MethodGet, "app/manifests/1", http.StatusOK, manifest)
	}
}
