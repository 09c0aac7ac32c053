package clusterversion

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windows-machine-config/wmco/internal/cluster"
	"github.com/windows-machine-config/wmco/internal/httpclient"
	"github.com/windows-machine-config/wmco/internal/kube"
	"github.com/windows-machine-config/wmco/internal/release"
)

const (
	// askWithin is how long an API server may take to say its version.
	askWithin = 5 * time.Second
	// maxServers is how many API servers are asked: no cluster has so many, whatever its EndpointSlice says.
	maxServers = 16
	// answersCount is for how long an answer counts. Behind one address there may be several servers, of which each look sees one, and a
	// server that is away for a while may return.
	answersCount = 10 * time.Minute
	// maxAnswer is the size of an answer, in bytes: ten times as much as there is in one.
	maxAnswer = 8 << 10
	// serverName is in the certificate of every API server, as the name of its Service.
	serverName = "kubernetes.default.svc"
)

// Servers asks each API server of a cluster for its version (GET /version).
type Servers struct {
	live   client.Reader
	config *rest.Config
	// answered is when servers said each version last. One caller uses it.
	answered map[string]time.Time
}

// NewServers asks the API servers that live finds, with the certificate authorities of config.
func NewServers(live client.Reader, config *rest.Config) *Servers {
	return &Servers{live: live, config: config, answered: map[string]time.Time{}}
}

// Kubelets returns the versions of the kubelets that Windows nodes report.
func (s *Servers) Kubelets(ctx context.Context) ([]string, error) {
	nodes, err := kube.WindowsNodes(ctx, s.live)
	var versions []string
	for i := range nodes {
		versions = append(versions, nodes[i].Status.NodeInfo.KubeletVersion)
	}
	return versions, err
}

// Versions returns the versions that API servers have said within the last ten minutes, as in v1.36.3. Where the servers' own addresses cannot
// be reached, the one at which requests arrive is asked.
func (s *Servers) Versions(ctx context.Context) []string {
	addresses, err := cluster.APIServers(ctx, s.live)
	if err != nil {
		log.FromContext(ctx).Info("Listing API servers failed", "error", err.Error())
	}
	addresses = addresses[:min(len(addresses), maxServers)]
	answers := make([]string, len(addresses))
	var all sync.WaitGroup
	for i, address := range addresses {
		all.Go(func() { answers[i] = s.askServer(ctx, address) })
	}
	all.Wait()
	if !slices.ContainsFunc(answers, func(answer string) bool { return answer != "" }) {
		answers = append(answers, ask(ctx, s.config))
	}
	now := time.Now()
	for _, answer := range answers {
		if answer != "" {
			s.answered[answer] = now
		}
	}
	maps.DeleteFunc(s.answered, func(_ string, at time.Time) bool { return now.Sub(at) >= answersCount })
	return slices.Sorted(maps.Keys(s.answered))
}

// askServer asks one API server at its own address. The server must have the certificate of an API server before it gets credentials,
// which clusters without anonymous access require.
func (s *Servers) askServer(ctx context.Context, address netip.AddrPort) string {
	config := rest.CopyConfig(s.config)
	config.Host, config.ServerName = "https://"+address.String(), serverName
	return ask(ctx, config)
}

// ask returns the version of the API server at which config points; empty where it does not answer.
func ask(ctx context.Context, config *rest.Config) string {
	answer, _, err := get(ctx, config)
	var v string
	if err == nil {
		v, err = versionOf(answer)
	}
	if err != nil {
		log.FromContext(ctx).V(1).Info("Asking an API server for its version failed", "server", config.Host, "error", err.Error())
	}
	return v
}

// Names are the DNS names in the certificate of the API server at which requests of the operator arrive.
func (s *Servers) Names(ctx context.Context) ([]string, error) {
	_, names, err := get(ctx, s.config)
	if len(names) > 0 {
		return names, nil // whatever it answered
	}
	return nil, err
}

// get asks over a connection of its own. One that is kept leads to the same server each time, whichever others are behind the address. names are
// those in the server's certificate.
func get(ctx context.Context, config *rest.Config) (answer []byte, names []string, err error) {
	config = rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, nil, err
	}
	config.CertFile, config.KeyFile, config.CAFile = "", "", "" // read now: client-go watches files for as long as the process lives
	if config.Proxy == nil {
		config.Proxy = http.ProxyFromEnvironment // what it is anyway; with a function, client-go shares no connections
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, nil, err
	}
	defer utilnet.CloseIdleConnectionsFor(transport)
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("version").String(), nil)
	if err != nil {
		return nil, nil, err
	}
	response, err := httpclient.New(transport, askWithin).Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	if response.TLS != nil && len(response.TLS.PeerCertificates) > 0 {
		names = response.TLS.PeerCertificates[0].DNSNames
	}
	if response.StatusCode != http.StatusOK {
		return nil, names, errors.New(response.Status)
	}
	answer, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return answer, names, err
}

// versionOf reads an answer to GET /version.
func versionOf(answer []byte) (string, error) {
	var said struct {
		GitVersion     string `json:"gitVersion"`
		EmulationMajor string `json:"emulationMajor"`
		EmulationMinor string `json:"emulationMinor"`
	}
	if err := json.Unmarshal(answer, &said); err != nil {
		return "", fmt.Errorf("reading the version: %w", err)
	}
	return release.Server(said.GitVersion, said.EmulationMajor, said.EmulationMinor)
}
