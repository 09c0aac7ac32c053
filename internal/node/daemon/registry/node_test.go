package registry_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/credentials"
	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
)

const quayHosts = desired.Registries + `\quay.io\hosts.toml`

// mirrored returns a node with all sources of quay.io images blocked.
func mirrored(m *daemontest.Member) desired.Node {
	node := m.Request.Desired
	node.Registries = &mirrors.Table{Sources: []mirrors.Source{{Prefix: "quay.io", Blocked: true, BlockedBy: "a test"}}}
	return node
}

// containerds returns the certificate and key with which the simulated host's containerd calls WICD's registry.
func containerds(t *testing.T, m *daemontest.Member) tls.Certificate {
	t.Helper()
	text, err := m.Windows.Disk().Read(desired.RegistryClient)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(text, text) // one file, as containerd reads it
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// requestFromRegistry requests an image from WICD's registry on the simulated host, as its containerd does, and returns the status code; 0 if
// nothing responds.
func requestFromRegistry(t *testing.T, m *daemontest.Member, as ...tls.Certificate) int {
	t.Helper()
	certificate, err := m.Windows.Disk().Read(desired.RegistryCA)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certificate)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: as}, DisableKeepAlives: true, DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		return m.Windows.DialLoopback(ctx, address)
	}}
	r, err := http.NewRequest(http.MethodGet, "https://"+desired.RegistryAddress+"/v2/app/manifests/1?ns=quay.io", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return 0
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}

// TestPublishedMirrorsAreServed: the registry serves only containerd, and no service restarts.
func TestPublishedMirrorsAreServed(t *testing.T) {
	t.Parallel()
	m := daemontest.NewFollower(t, daemontest.Options{})
	before := m.PIDs()
	m.Follow(t, mirrored(m))
	pair := containerds(t, m)
	endpoint, err := credentials.ReadRegistry(m.Windows.Disk())
	if err != nil {
		t.Fatal(err)
	}
	hosts, err := m.Windows.Disk().Read(quayHosts)
	if err != nil || !strings.Contains(string(hosts), desired.RegistryClient) {
		t.Errorf("%s is %q (%v)", quayHosts, hosts, err)
	}
	for _, name := range []string{desired.RegistryClient, credentials.RegistryFile} {
		if matches, _, err := m.Windows.Host().Rights.Check(name, hostapi.Private); err != nil || !matches {
			t.Errorf("others may read %s (%v)", name, err)
		}
	}
	daemontest.Await(t, "the registry denies what is blocked", func() bool { return requestFromRegistry(t, m, pair) == http.StatusForbidden })
	if status := requestFromRegistry(t, m); status != http.StatusUnauthorized {
		t.Errorf("without the certificate, the status is %d", status)
	}
	daemontest.Await(t, "the metrics count it", func() bool {
		text, err := m.Windows.Disk().Read(daemontest.MetricsFile)
		return err == nil && strings.Contains(string(text), `wicd_registry_requests_total{result="unauthorized"} 1`)
	})
	m.Follow(t, m.Request.Desired)
	if m.Windows.Disk().Exists(desired.Registries + `\quay.io`) {
		t.Error("containerd still contacts the registry")
	}
	daemontest.Await(t, "nothing is served any more", func() bool { return requestFromRegistry(t, m, pair) == 0 })
	if after := m.PIDs(); !maps.Equal(after, before) {
		t.Errorf("services were restarted: %v, then %v", before, after)
	}
	key := strings.Split(endpoint.Client.PrivateKey, "\n")[1] // the first line of the base64, without the PEM header
	for _, name := range []string{daemontest.JournalFile, `C:\k\state\node.json`, daemontest.MetricsFile, quayHosts} {
		if text, err := m.Windows.Disk().Read(name); err == nil && strings.Contains(string(text), key) {
			t.Errorf("the key is in %s", name)
		}
	}
}

// TestPortConflictIsReported: an event on the Node reports it, and the registry starts when the port is free.
func TestPortConflictIsReported(t *testing.T) {
	t.Parallel()
	m := daemontest.NewFollower(t, daemontest.Options{})
	other, err := m.Windows.ListenLoopback(desired.RegistryAddress)
	if err != nil {
		t.Fatal(err)
	}
	m.Publish(t, mirrored(m))
	m.AwaitNote(t, api.EventRegistryUnavailable, desired.RegistryAddress)
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	pair := containerds(t, m)
	daemontest.Await(t, "the registry answers", func() bool { return requestFromRegistry(t, m, pair) == http.StatusForbidden })
	if n := len(m.Notes(api.EventRegistryUnavailable)); n != 1 {
		t.Errorf("there are %d events", n)
	}
}
