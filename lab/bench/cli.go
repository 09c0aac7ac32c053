//go:build linux

package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/windows-machine-config/wmco/lab/pagetest"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// cliHosts is how many hosts kubectl windows has to show. The first cliWarm runs do not count: after thousands of writes, the API server and etcd
// are busy for seconds. Then cliRuns do.
const (
	cliHosts = 1000
	cliWarm  = 20
	cliRuns  = 9
)

// measureCLI runs kubectl windows status in a cluster with a thousand instances and nodes. The operator does not run: the objects say
// what they would with hosts.
func measureCLI(ctx context.Context, s *sheet) error {
	env, err := testenv.Open(ctx, testenv.Options{Log: s.progress})
	if err != nil {
		return err
	}
	defer env.Close()
	env.Operator.Kill()
	plugin, err := env.Plugin(ctx)
	if err != nil {
		return err
	}
	if err := s.pluginSize(ctx); err != nil {
		return err
	}
	s.say("Creating %d instances and nodes", cliHosts)
	if err := pagetest.Fill(ctx, env.Client, cliHosts); err != nil {
		return err
	}
	var took []float64
	for n := range cliWarm + cliRuns {
		began := time.Now()
		r, err := plugin.Run(ctx, "status")
		if err != nil {
			return err
		}
		if n >= cliWarm {
			took = append(took, float64(time.Since(began).Milliseconds()))
		}
		if missing := r.Says(fmt.Sprintf(" of %d Ready", cliHosts)); r.Code != 0 || missing != "" {
			return fmt.Errorf("kubectl windows status: exit code %d, %s", r.Code, missing)
		}
	}
	s.number("cli.status_ms_1000", median(took), "ms")
	requests, err := countRequests(ctx, env, plugin)
	if err != nil {
		return err
	}
	s.number("cli.api_requests_status", float64(requests), "requests")
	return nil
}

// pluginSize builds the program as make plugin does.
func (s *sheet) pluginSize(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "wmco-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	root, err := testenv.Repository(ctx)
	if err != nil {
		return err
	}
	program := filepath.Join(dir, "kubectl-windows")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "./cmd/kubectl-windows")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building kubectl-windows: %w: %s", err, out)
	}
	info, err := os.Stat(program)
	if err != nil {
		return err
	}
	s.number("cli.exe_mb", float64(info.Size())/1e6, "MB")
	return nil
}

// countRequests is how many requests the status makes, counted by a proxy before the API server.
func countRequests(ctx context.Context, env *testenv.Env, plugin testenv.Plugin) (int64, error) {
	config := env.Lab.ControlPlane.RESTConfig()
	transport, err := rest.TransportFor(config)
	if err != nil {
		return 0, err
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		return 0, err
	}
	var requests atomic.Int64
	forward := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(server) }}
	counting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		forward.ServeHTTP(w, r)
	}))
	defer counting.Close()
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["bench"] = &clientcmdapi.Cluster{Server: counting.URL}
	kubeconfig.Contexts["bench"] = &clientcmdapi.Context{Cluster: "bench"}
	kubeconfig.CurrentContext = "bench"
	plugin.Kubeconfig += ".counted"
	if err := clientcmd.WriteToFile(*kubeconfig, plugin.Kubeconfig); err != nil {
		return 0, err
	}
	r, err := plugin.Run(ctx, "status")
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("kubectl windows status: exit code %d: %s", r.Code, r.Err)
	}
	return requests.Load(), err
}
