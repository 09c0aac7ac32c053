// Package session represents one run of kubectl windows: it finds and reads the cluster with deadlines, and explains errors. The commands are in
// internal/cli and in packages next to this one.
package session

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spf13/pflag"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/httpclient"
)

// defaultTimeout is the default deadline of each request to the API server (--request-timeout).
const defaultTimeout = "30s"

// Session is one run of the program.
type Session struct {
	genericiooptions.IOStreams
	// Version is that of this program.
	Version string

	kubeconfig string
	overrides  *clientcmd.ConfigOverrides
}

// New returns a session with these streams.
func New(streams genericiooptions.IOStreams, version string) *Session {
	return &Session{IOStreams: streams, Version: version, overrides: &clientcmd.ConfigOverrides{}}
}

// AddFlags adds kubectl's flags that select cluster and user. There are no flags for passwords: other users could read them in the process list.
func (s *Session) AddFlags(f *pflag.FlagSet) {
	flags := clientcmd.RecommendedConfigOverrideFlags("")
	flags.AuthOverrideFlags.Username, flags.AuthOverrideFlags.Password = clientcmd.FlagInfo{}, clientcmd.FlagInfo{}
	flags.ContextOverrideFlags.Namespace.Description = "Namespace of the operator. Defaults to that of the WindowsInstances."
	flags.Timeout.Default, flags.Timeout.Description = defaultTimeout, "Deadline of each request to the API server, such as 10s or 1m."
	flags.ClusterOverrideFlags.APIServer.ShortName = "s"
	clientcmd.BindOverrideFlags(s.overrides, f, flags)
	f.StringVar(&s.kubeconfig, "kubeconfig", "", "Path to the kubeconfig file to use")
}

// loader reads kubeconfigs as kubectl does.
func (s *Session) loader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = s.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, s.overrides)
}

// Config returns the configuration for clients. Timeout is the deadline of each request: clients that follow a stream set it to zero and limit
// the stream themselves.
func (s *Session) Config() (*rest.Config, error) {
	loader := s.loader()
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, Failf(CodeUnreachable, "reading the kubeconfig: %w", err)
	}
	inPod := os.Getenv("KUBERNETES_SERVICE_HOST") != ""
	if len(raw.Contexts) == 0 && s.overrides.ClusterInfo.Server == "" && !inPod {
		return nil, Failf(CodeUnreachable, "no cluster is configured: set KUBECONFIG or --kubeconfig")
	}
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, Failf(CodeUnreachable, "reading the kubeconfig: %w", err)
	}
	if config.Timeout <= 0 {
		config.Timeout, _ = time.ParseDuration(defaultTimeout)
	}
	config.QPS = -1 // the API server limits clients, and this one makes few requests
	config.UserAgent = "kubectl-windows/" + s.Version
	config.WarningHandler = rest.NoWarnings{}
	config.Wrap(httpclient.RefuseRedirects)
	return config, nil
}

// Client returns a client for the kinds that commands know. It makes no discovery requests.
func (s *Session) Client() (client.Client, error) { return s.client(false) }

// DiscoveringClient returns a client that discovers the API server's kinds first.
func (s *Session) DiscoveringClient() (client.Client, error) { return s.client(true) }

func (s *Session) client(discovers bool) (client.Client, error) {
	config, err := s.Config()
	if err != nil {
		return nil, err
	}
	o, err := ClientOptions()
	if err != nil {
		return nil, err
	}
	if discovers {
		o.Mapper = nil
	}
	c, err := client.New(config, o)
	if err != nil {
		return nil, Explain(err, "connecting to the API server at "+config.Host)
	}
	return c, nil
}

// NamespaceFlag returns the namespace that the user named; empty if none.
func (s *Session) NamespaceFlag() string { return s.overrides.Context.Namespace }

// fallbackNamespace returns the namespace of the kubeconfig's context, unless it is "default", which contexts without a namespace have, too.
func (s *Session) fallbackNamespace() string {
	if namespace, _, err := s.loader().Namespace(); err == nil && namespace != "default" {
		return namespace
	}
	return api.DefaultNamespace
}

// Confirm asks the user for confirmation. End of input means no.
func (s *Session) Confirm(question string) error {
	fmt.Fprintf(s.ErrOut, "%s [y/N] ", question)
	answer, err := bufio.NewReader(io.LimitReader(s.In, 100)).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	if errors.Is(err, io.EOF) && answer == "" {
		fmt.Fprintln(s.ErrOut)
		return Failf(CodeUsage, "not confirmed: no answer on standard input; use --yes to skip the prompt")
	}
	return Failf(CodeFailed, "not confirmed")
}
