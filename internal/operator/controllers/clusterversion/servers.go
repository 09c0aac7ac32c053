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
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windows-machine-config/wmco/internal/operator/cluster"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/kubeversions"
	"github.com/windows-machine-config/wmco/internal/shared/httpclient"
)

const (
	// queryTimeout is the timeout for an API server's version.
	queryTimeout = 5 * time.Second
	// maxServers is the maximum number of API servers to query: no cluster has more, whatever its EndpointSlice contains.
	maxServers = 16
	// answerLifetime is how long an answer stays valid. Behind one address there may be several servers, one of which answers each query, and a server
	// that is down may return.
	answerLifetime = 10 * time.Minute
	// maxResponse limits the size of a response, in bytes, to ten times the usual size.
	maxResponse = 8 << 10
	// serverName is the name of the API servers' Service, which each of their certificates contains.
	serverName = "kubernetes.default.svc"
)

// Servers queries each API server of a cluster for its version (GET /version).
type Servers struct {
	live   client.Reader
	config *rest.Config
	// answered is when each version was last reported. Only one caller uses it.
	answered map[string]time.Time
}

// NewServers returns Servers that lists API servers with live and trusts the certificate authorities of config.
func NewServers(live client.Reader, config *rest.Config) *Servers {
	return &Servers{live: live, config: config, answered: map[string]time.Time{}}
}

// Kubelets returns the kubelet versions that Windows nodes report.
func (s *Servers) Kubelets(ctx context.Context) ([]string, error) {
	nodes, err := kube.WindowsNodes(ctx, s.live)
	var versions []string
	for i := range nodes {
		versions = append(versions, nodes[i].Status.NodeInfo.KubeletVersion)
	}
	return versions, err
}

// Versions returns the versions that API servers have reported within the last ten minutes, such as v1.36.3. If none answers at its own address,
// Versions queries the address of the operator's requests.
func (s *Servers) Versions(ctx context.Context) []string {
	addresses, err := cluster.APIServers(ctx, s.live)
	if err != nil {
		log.FromContext(ctx).Info("Listing API servers failed", "error", err.Error())
	}
	addresses = addresses[:min(len(addresses), maxServers)]
	answers := make([]string, len(addresses))
	var queries sync.WaitGroup
	for i, address := range addresses {
		queries.Go(func() { answers[i] = s.queryServer(ctx, address) })
	}
	queries.Wait()
	if !slices.ContainsFunc(answers, func(answer string) bool { return answer != "" }) {
		answers = append(answers, queryVersion(ctx, s.config))
	}
	now := time.Now()
	for _, answer := range answers {
		if answer != "" {
			s.answered[answer] = now
		}
	}
	maps.DeleteFunc(s.answered, func(_ string, at time.Time) bool { return now.Sub(at) >= answerLifetime })
	return slices.Sorted(maps.Keys(s.answered))
}

// queryServer queries one API server at its own address. The server must present an API server's certificate before it gets credentials, which clusters
// without anonymous access require.
func (s *Servers) queryServer(ctx context.Context, address netip.AddrPort) string {
	config := rest.CopyConfig(s.config)
	config.Host, config.ServerName = "https://"+address.String(), serverName
	return queryVersion(ctx, config)
}

// queryVersion returns the version of the API server at which config points, or "" if it does not answer.
func queryVersion(ctx context.Context, config *rest.Config) string {
	answer, _, err := get(ctx, config)
	var v string
	if err == nil {
		v, err = versionOf(answer)
	}
	if err != nil {
		log.FromContext(ctx).V(1).Info("Querying an API server's version failed", "server", config.Host, "error", err.Error())
	}
	return v
}

// Names returns the DNS names in the certificate of the API server that receives the operator's requests.
func (s *Servers) Names(ctx context.Context) ([]string, error) {
	_, names, err := get(ctx, s.config)
	if len(names) > 0 {
		return names, nil // for any response
	}
	return nil, err
}

// get sends the request over a new connection: a connection that is kept open always leads to the same of several servers behind an address. names
// are those in the server's certificate.
func get(ctx context.Context, config *rest.Config) (answer []byte, names []string, err error) {
	config = rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, nil, err
	}
	config.CertFile, config.KeyFile, config.CAFile = "", "", "" // already loaded; otherwise client-go watches the files for the lifetime of the process
	if config.Proxy == nil {
		config.Proxy = http.ProxyFromEnvironment // the default; with a function set, client-go does not share connections
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
	response, err := httpclient.New(transport, queryTimeout).Do(request)
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
	answer, err = io.ReadAll(io.LimitReader(response.Body, maxResponse))
	return answer, names, err
}

func versionOf(answer []byte) (string, error) {
	var reported version.Info
	if err := json.Unmarshal(answer, &reported); err != nil {
		return "", fmt.Errorf("parsing the version: %w", err)
	}
	return kubeversions.Server(reported.GitVersion, reported.EmulationMajor, reported.EmulationMinor)
}
