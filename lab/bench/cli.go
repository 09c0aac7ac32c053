//go:build linux

package main

import (
	"context"
	"errors"
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

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// cliHosts is how many hosts kubectl windows has to show; cliRuns how often it does.
const (
	cliHosts = 1000
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
	if err := createFleet(ctx, env); err != nil {
		return err
	}
	var took []float64
	for range cliRuns {
		began := time.Now()
		r, err := plugin.Run(ctx, "status")
		if err != nil {
			return err
		}
		took = append(took, float64(time.Since(began).Milliseconds()))
		if missing := r.Says(fmt.Sprintf("of %d Ready", cliHosts)); r.Code != 0 || missing != "" {
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

// createFleet creates the objects of Ready hosts.
func createFleet(ctx context.Context, env *testenv.Env) error {
	var group errgroup.Group
	group.SetLimit(16)
	for n := range cliHosts {
		group.Go(func() error { return createHost(ctx, env, n) })
	}
	return group.Wait()
}

func createHost(ctx context.Context, env *testenv.Env, n int) error {
	name := fmt.Sprintf("win-%04d", n)
	now := metav1.Now()
	i := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: name}}
	i.Spec.Address, i.Spec.Username = fmt.Sprintf("10.75.%d.%d", n/250, n%250+1), testenv.User
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "windows"}, Annotations: map[string]string{api.AnnotationVersion: "1.0.0-3f9a2c1"}}}
	if err := errors.Join(env.Client.Create(ctx, i), env.Client.Create(ctx, node)); err != nil {
		return err
	}
	i.Status.Hostname, i.Status.OSBuild, i.Status.NodeRef = name, "10.0.20348.2402", &v1alpha1.NodeReference{Name: name}
	for _, c := range []string{api.ConditionReachable, api.ConditionSupported, api.ConditionConfigured, api.ConditionNodeReady, api.ConditionReady} {
		i.Status.Conditions = append(i.Status.Conditions, metav1.Condition{Type: c, Status: metav1.ConditionTrue, Reason: api.ReasonReady, LastTransitionTime: now, Message: "the host is a Ready node"})
	}
	for _, step := range []string{"Connect", "Inspect", "Check", "Transfer", "Configure", "Register", "Ready"} {
		i.Status.Steps = append(i.Status.Steps, v1alpha1.StepStatus{Name: step, State: v1alpha1.StepDone, Message: "done"})
	}
	for _, c := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: c, Status: corev1.ConditionFalse, LastTransitionTime: now, LastHeartbeatTime: now})
	}
	node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: now, LastHeartbeatTime: now})
	for image := range 20 {
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{Names: []string{fmt.Sprintf("registry.example.com/shop/web-%d:ltsc2022", image)}, SizeBytes: 1 << 30})
	}
	return errors.Join(env.Client.Status().Update(ctx, i), env.Client.Status().Update(ctx, node))
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
