//go:build linux

package lab

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// A Program runs on this machine next to the control plane, and ends with it.
type Program struct {
	*reaper
	log string
}

// Start starts a program that writes its log to a file.
func (cp *ControlPlane) Start(log string, command ...string) (*Program, error) {
	r, err := startReaper(cp.reaper, 0, append([]string{"run", log}, command...)...)
	if err != nil {
		return nil, err
	}
	return &Program{r, log}, nil
}

// Stop stops the program, and returns when it has exited.
func (p *Program) Stop() { p.stop() }

// Failure returns why the program has exited, or nil while it runs.
func (p *Program) Failure() error { return p.failure() }

// Log returns the end of its log.
func (p *Program) Log(bytes int64) string { return tail(p.log, bytes) }

// WaitHealthy waits until a URL of the program returns 200. It does not verify certificates, because programs sign their own.
func (p *Program) WaitHealthy(ctx context.Context, url string, timeout time.Duration) error {
	own := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true, //nolint:gosec // on the loopback network
	}}
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, Timeout(timeout), true, func(ctx context.Context) (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false, err
		}
		response, err := own.Do(request)
		if err != nil {
			return false, p.Failure() // not listening yet, unless it failed
		}
		return response.StatusCode == http.StatusOK, response.Body.Close()
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w; the log of the program ends with:\n%s", url, err, p.Log(3000))
	}
	return nil
}

// StartProxy starts kube-proxy, as it runs on a Linux node, in the network of this process.
func (cp *ControlPlane) StartProxy(log string, flags ...string) (*Program, error) {
	return cp.Start(log, append([]string{cp.program, "kube-proxy"}, flags...)...)
}

// MetricsServerModule is the module of metrics-server, which lab/cluster/metricsserver pins.
const MetricsServerModule = "sigs.k8s.io/metrics-server"

func metricsServerProgram() program {
	return program{
		pkg: MetricsServerModule + "/cmd/metrics-server", module: "cluster/metricsserver", about: "building metrics-server (some minutes the first time)",
	}
}

// StartMetricsServer starts metrics-server in the network of this process.
func (cp *ControlPlane) StartMetricsServer(ctx context.Context, log string, flags ...string) (*Program, error) {
	program, err := cp.cache.build(ctx, metricsServerProgram())
	if err != nil {
		return nil, err
	}
	return cp.Start(log, append([]string{program}, flags...)...)
}

// StartDNS starts CoreDNS, the cluster's DNS, in the network of this process.
func (cp *ControlPlane) StartDNS(ctx context.Context, log, corefile string) (*Program, error) {
	program, err := cp.cache.build(ctx, coreDNSProgram())
	if err != nil {
		return nil, err
	}
	return cp.Start(log, program, "-conf", corefile)
}
