package daemon_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/credentials"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
)

const quayHosts = desired.Registries + `\quay.io\hosts.toml`

// mirrored returns a node with all sources of quay.io images blocked.
func (m *member) mirrored() desired.Node {
	node := m.request.Desired
	node.Registries = &mirrors.Table{Sources: []mirrors.Source{{Prefix: "quay.io", Blocked: true, BlockedBy: "a test"}}}
	return node
}

// containerds returns the certificate and key with which the simulated host's containerd calls WICD's registry.
func (m *member) containerds(t *testing.T) tls.Certificate {
	t.Helper()
	text, err := m.windows.Disk().Read(desired.RegistryClient)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(text, text) // one file, as containerd reads it
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// askRegistry requests an image from WICD's registry on the simulated host, as its containerd does, and returns the status code; 0 when nothing
// answers.
func (m *member) askRegistry(t *testing.T, as ...tls.Certificate) int {
	t.Helper()
	certificate, err := m.windows.Disk().Read(desired.RegistryCA)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certificate)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: as}, DisableKeepAlives: true, DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		return m.windows.DialLoopback(ctx, address)
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

// TestMirrorsAreServedWhenTheyArePublished: the registry serves only containerd, and no service restarts.
func TestMirrorsAreServedWhenTheyArePublished(t *testing.T) {
	t.Parallel()
	m := newFollower(t)
	before := m.pids()
	m.publish(t, m.mirrored())
	m.awaitSettings(t, m.mirrored())
	pair := m.containerds(t)
	endpoint, err := credentials.ReadRegistry(m.windows.Disk())
	if err != nil {
		t.Fatal(err)
	}
	hosts, err := m.windows.Disk().Read(quayHosts)
	if err != nil || !strings.Contains(string(hosts), desired.RegistryClient) {
		t.Errorf("%s is %q (%v)", quayHosts, hosts, err)
	}
	for _, name := range []string{desired.RegistryClient, credentials.RegistryFile} {
		if ours, _, err := m.windows.Host().Rights.Look(name, hostapi.Private); err != nil || !ours {
			t.Errorf("others may read %s (%v)", name, err)
		}
	}
	m.await(t, "the registry denies what is blocked", func() bool { return m.askRegistry(t, pair) == http.StatusForbidden })
	if status := m.askRegistry(t); status != http.StatusUnauthorized {
		t.Errorf("without the certificate, it answers with %d", status)
	}
	m.await(t, "the metrics count it", func() bool {
		text, err := m.windows.Disk().Read(desired.Metrics + `\wicd.prom`)
		return err == nil && strings.Contains(string(text), `wicd_registry_requests_total{result="unauthorized"} 1`)
	})
	m.publish(t, m.request.Desired)
	m.awaitSettings(t, m.request.Desired)
	if m.windows.Disk().Exists(desired.Registries + `\quay.io`) {
		t.Error("containerd is still sent to the registry")
	}
	m.await(t, "nothing is served any more", func() bool { return m.askRegistry(t, pair) == 0 })
	after := m.pids()
	for name := range before {
		if before[name] != after[name] {
			t.Errorf("service %s was restarted", name)
		}
	}
	key := strings.Split(endpoint.Client.PrivateKey, "\n")[1] // the first line of the base64, without the PEM header
	for _, name := range []string{`C:\k\state\journal.jsonl`, `C:\k\state\node.json`, desired.Metrics + `\wicd.prom`, quayHosts} {
		if text, err := m.windows.Disk().Read(name); err == nil && strings.Contains(string(text), key) {
			t.Errorf("the key is in %s", name)
		}
	}
}

// TestAnotherProgramHasThePort: an event on the Node reports it, and the registry starts when the port is free.
func TestAnotherProgramHasThePort(t *testing.T) {
	t.Parallel()
	m := newFollower(t)
	other, err := m.windows.ListenLoopback(desired.RegistryAddress)
	if err != nil {
		t.Fatal(err)
	}
	m.publish(t, m.mirrored())
	m.await(t, "the Node has an event", func() bool { return m.countEvents(api.EventRegistryUnavailable) > 0 })
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	pair := m.containerds(t)
	m.await(t, "the registry answers", func() bool { return m.askRegistry(t, pair) == http.StatusForbidden })
	if n := m.countEvents(api.EventRegistryUnavailable); n != 1 {
		t.Errorf("there are %d events", n)
	}
}

// countEvents counts the node's events with a reason that name the registry's port.
func (m *member) countEvents(reason string) (n int) {
	for _, e := range m.events() {
		if e.Reason == reason && strings.Contains(e.Note, desired.RegistryAddress) {
			n++
		}
	}
	return n
}
