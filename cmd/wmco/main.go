// Command wmco is the Windows Machine Config Operator. It joins Windows Server hosts to the cluster it runs in as nodes, and maintains them.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // maintenance windows name time zones, which the image lacks

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	utilruntime "k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/cluster"
	"github.com/windows-machine-config/wmco/internal/operator/controllers"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/lease"
	"github.com/windows-machine-config/wmco/internal/shared/httpclient"
	"github.com/windows-machine-config/wmco/internal/shared/tlsprofile"
	"github.com/windows-machine-config/wmco/payload"
)

type flags struct {
	payloadDir   string
	namespace    string
	kubeconfig   string
	metrics      metricsOptions
	probeAddress string
	leaderElect  bool
	debug        bool
	// applyPolicies enables installing the admission policies.
	applyPolicies bool
	// oneMachine means that the API server runs on the only host.
	oneMachine bool
	// operatorCondition is the name of OLM's OperatorCondition for this version; empty without OLM.
	operatorCondition string
	// pod is the name of this process's pod; empty outside of a pod.
	pod string
}

func main() {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		os.Exit(command(os.Args[1], os.Args[2:]))
	}
	f, err := parse(os.Args[1:], os.Getenv)
	if err != nil {
		writeTerminationMessage(terminationLog, err)
		os.Exit(2)
	}
	logger := kube.NewLogger(os.Stderr, f.debug)
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	if err := run(ctrl.SetupSignalHandler(), f, logger); err != nil {
		logger.Error(err, "Running the operator failed")
		writeTerminationMessage(terminationLog, err)
		os.Exit(1)
	}
}

func command(name string, args []string) int {
	switch name {
	case "version":
		fmt.Printf("wmco %s %s\n", version(), runtime.Version())
		return 0
	case "migrate":
		err := migrate(ctrl.SetupSignalHandler(), args, os.Stdout)
		switch {
		case errors.Is(err, flag.ErrHelp):
			return 0
		case errors.Is(err, errBlocked):
			return 3
		case err != nil:
			fmt.Fprintln(os.Stderr, "wmco migrate:", err)
			return 1
		}
		return 0
	}
	fmt.Fprintf(os.Stderr, "wmco: unknown command %q; use version or migrate --check\n", name)
	return 2
}

// parse parses the command line. It appends the environment variable ARGS, through which the flags of a Deployment written by OLM are set
// (spec.config.env of the Subscription).
func parse(args []string, env func(string) string) (flags, error) {
	f := flags{operatorCondition: env("OPERATOR_CONDITION_NAME"), pod: env("POD_NAME")}
	var minVersion string
	set := flag.NewFlagSet("wmco", flag.ContinueOnError)
	set.Usage = func() {
		fmt.Fprintf(set.Output(), "wmco joins Windows Server hosts to a cluster as nodes.\n\nUsage:\n  wmco [flags]\n  wmco version\n  wmco migrate --check\n\nFlags:\n")
		set.PrintDefaults()
	}
	set.StringVar(&f.payloadDir, "payload-dir", "/payload", "folder with payload.json and the files that it lists, as written by make payload")
	set.StringVar(&f.namespace, "namespace", env("POD_NAMESPACE"), "the operator's own namespace; defaults to the namespace of its pod (POD_NAMESPACE)")
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file, to run outside a cluster; defaults to the pod's ServiceAccount")
	set.StringVar(&f.metrics.address, "metrics-bind-address", ":9182", "address of the metrics, served over HTTPS to authorized clients; 0 disables them")
	set.StringVar(&f.metrics.certDir, "metrics-cert-dir", "", "folder with tls.crt and tls.key for the metrics, reloaded when they change; without them, the certificate is self-signed")
	set.StringVar(&minVersion, "tls-min-version", "VersionTLS12", "minimum TLS version for the metrics: VersionTLS12 or VersionTLS13; on OpenShift, the cluster's TLS security profile may require more")
	set.StringVar(&f.probeAddress, "health-probe-bind-address", "127.0.0.1:8081", "address of /healthz and /readyz; 0 disables them")
	set.BoolVar(&f.leaderElect, "leader-elect", true, "work only while holding the Lease windows-machine-config-operator, so that only one replica is active")
	set.BoolVar(&f.applyPolicies, "apply-policies", false, "install the admission policies that limit hosts, and repair them; for installations with OLM, which cannot install them")
	set.BoolVar(&f.oneMachine, "one-machine", false, "allow hosts to reach the API server at a loopback address: the only host is the machine that the API server runs on, as with wmco-acceptance")
	set.BoolVar(&f.debug, "debugLogging", false, "enable debug logging")
	if err := set.Parse(slices.Concat(args, strings.Fields(env("ARGS")))); err != nil {
		return f, err
	}
	err := f.complete(minVersion, set.Args(), env("WATCH_NAMESPACE"))
	if err != nil {
		fmt.Fprintln(set.Output(), err)
	}
	return f, err
}

// complete validates what package flag does not. OLM sets watched, the namespaces of the OperatorGroup.
func (f *flags) complete(minVersion string, rest []string, watched string) (err error) {
	if f.metrics.minVersion, err = tlsVersion(minVersion); err != nil {
		return err
	}
	if len(rest) > 0 {
		return fmt.Errorf("reading the command line and the environment variable ARGS: %q is not a flag; separate flags with spaces, and do not quote them", rest[0])
	}
	f.namespace = cmp.Or(f.namespace, api.DefaultNamespace)
	if watched != "" && watched != f.namespace {
		return fmt.Errorf("environment variable WATCH_NAMESPACE is %q: the operator supports only its own namespace; set spec.targetNamespaces of its OperatorGroup to %s", watched, f.namespace)
	}
	return nil
}

func run(ctx context.Context, f flags, logger logr.Logger) error {
	content, err := payload.Open(f.payloadDir)
	if err != nil {
		return err
	}
	config, err := restConfig(f.kubeconfig)
	if err != nil {
		return fmt.Errorf("finding the cluster: %w", err)
	}
	if err := preflight(ctx, config, f.namespace); err != nil {
		return err
	}
	informers := controllers.Informers(f.namespace)
	m, err := newManager(config, f, informers.Cache(), logger)
	if err != nil {
		return fmt.Errorf("creating the manager: %w", err)
	}
	options := controllers.Options{Namespace: f.namespace, Version: version(), Payload: content, Informers: informers, Registry: metrics.Registry,
		ApplyPolicies: f.applyPolicies, OperatorCondition: f.operatorCondition, OneMachine: f.oneMachine}
	all, err := controllers.All(m, options)
	if err != nil {
		return err
	}
	for _, c := range all {
		if err := c.Register(ctx, m); err != nil {
			return fmt.Errorf("registering controllers: %w", err)
		}
	}
	logger.Info("Starting", "version", version(), "payload", content.Manifest.Digest, "namespace", f.namespace)
	return m.Start(ctx)
}

// restConfig returns the configuration for the API server. Client-side throttling is off: API Priority and Fairness does that better. Failed
// requests are retried, and all but watches have a deadline.
func restConfig(kubeconfig string) (*rest.Config, error) {
	config, err := rest.InClusterConfig()
	if kubeconfig != "" {
		config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	config.UserAgent = "wmco/" + version()
	config.Wrap(apiTransport)
	config.Wrap(httpclient.RefuseRedirects)
	return config, nil
}

func newManager(config *rest.Config, f flags, kept cache.Options, logger logr.Logger) (manager.Manager, error) {
	scheme := utilruntime.NewScheme()
	for _, add := range []func(*utilruntime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, authenticationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	lock, err := newLock(config, f.namespace, f.pod)
	if err != nil {
		return nil, err
	}
	m, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                              scheme,
		Cache:                               kept,
		Metrics:                             metricsserver.Options{BindAddress: "0"}, // the operator serves metrics itself, with limits
		HealthProbeBindAddress:              f.probeAddress,
		LeaderElection:                      f.leaderElect,
		LeaderElectionResourceLockInterface: lock,
		LeaseDuration:                       new(lease.Duration),
		RenewDeadline:                       new(lease.RenewDeadline),
		RetryPeriod:                         new(lease.RetryPeriod),
		LeaderElectionReleaseOnCancel:       true, // main ends when the manager does, so nothing runs after the release
	})
	if err != nil {
		return nil, err
	}
	if f.leaderElect {
		if err := m.Add(&lease.Report{Lock: lock, Reader: m.GetAPIReader(), Writer: m.GetClient()}); err != nil {
			return nil, err
		}
	}
	if f.metrics.address != "0" {
		profile := &profileFollower{
			read:   func(ctx context.Context) (*tlsprofile.Server, error) { return cluster.ReadTLS(ctx, m.GetAPIReader()) },
			logger: logger.WithName("metrics"),
		}
		if err := m.Add(profile); err != nil {
			return nil, err
		}
		f.metrics.profile = profile.server.Load
		server, err := newMetrics(m.GetConfig(), m.GetHTTPClient(), f.metrics, logger.WithName("metrics"))
		if err != nil {
			return nil, err
		}
		if err := m.Add(server); err != nil {
			return nil, err
		}
	}
	return m, addProbes(m, lock)
}

// addProbes serves the kubelet's probes: liveness, and readiness to work at once.
func addProbes(m manager.Manager, lock *lease.Lock) error {
	synced := func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if !m.GetCache().WaitForCacheSync(ctx) {
			return errors.New("the cache is not in sync with the API server yet")
		}
		return nil
	}
	active := func(*http.Request) error {
		if first := lock.First(); first != "" {
			return fmt.Errorf("the operator in namespace %s manages the Windows nodes of this cluster; this one stands by", first)
		}
		return nil
	}
	return errors.Join(m.AddHealthzCheck("ping", healthz.Ping), m.AddReadyzCheck("cache", synced), m.AddReadyzCheck("claim", active))
}
