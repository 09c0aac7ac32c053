package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/observe/advice"
	"github.com/windows-machine-config/wmco/internal/operator/kubeversions"
	"github.com/windows-machine-config/wmco/internal/operator/migration"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
	"github.com/windows-machine-config/wmco/payload"
)

// preflight holds the flags of checks before the operator is installed.
type preflight struct {
	pre   bool
	hosts []string
}

const preflightTimeout = time.Minute

// readCluster reads a cluster that has no operator, or the original one.
func readCluster(ctx context.Context, s *session.Session) (current migration.Cluster, server string, err error) {
	ctx, cancel := context.WithTimeout(ctx, preflightTimeout)
	defer cancel()
	config, err := s.Config()
	if err != nil {
		return current, "", err
	}
	if server, err = serverVersion(config); err != nil {
		return current, "", err
	}
	c, err := s.DiscoveringClient()
	if err != nil {
		return current, "", err
	}
	namespace := cmp.Or(s.NamespaceFlag(), api.DefaultNamespace)
	// The available kubelets are known from the operator's image only. Without them, only the minimum version counts.
	current, err = migration.Read(ctx, c, namespace, kubeversions.Of(s.Version, payload.Manifest{}), server)
	return current, server, session.Explain(err, "reading the cluster")
}

// serverVersion returns the version of the API server. If a cluster has several API servers, it queries only one.
func serverVersion(config *rest.Config) (string, error) {
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return "", session.Explain(err, "connecting")
	}
	version, err := discoveryClient.ServerVersion()
	if err != nil {
		return "", session.Explain(err, "reading the version of the API server")
	}
	if emulated, err := kubeversions.Server(version.GitVersion, version.EmulationMajor, version.EmulationMinor); err == nil {
		return emulated, nil
	}
	return version.GitVersion, nil
}

func (p preflight) run(ctx context.Context, s *session.Session) (findings, error) {
	current, server, err := readCluster(ctx, s)
	if err != nil {
		return nil, err
	}
	found := &findings{}
	checkServer(found, server)
	checkCluster(found, current)
	if err := checkRights(ctx, s, found); err != nil {
		return nil, err
	}
	for _, host := range p.hosts {
		checkHost(ctx, found, host)
	}
	return *found, nil
}

func checkServer(found *findings, server string) {
	current, err := utilversion.ParseGeneric(server)
	if err == nil && current.LessThan(utilversion.MustParseGeneric(kubeversions.MinKubernetes)) {
		found.add(advice.Error, "Kubernetes", "the API server runs "+server, "Upgrade the cluster to "+kubeversions.MinKubernetes+" or later.", "support")
		return
	}
	found.add(advice.OK, "Kubernetes", server, "", "")
}

// checkCluster adds findings about the cluster: its network, installed operators, the SSH key, entries and failed reads.
func checkCluster(found *findings, current migration.Cluster) {
	if current.NetworkFault != "" {
		found.add(advice.Error, "pod network", current.NetworkFault, "Change the cluster's network, or set spec.network of WindowsConfig, as the message says.", "network#checks")
	} else if _, unread := current.Unread["Pod network"]; !unread {
		found.add(advice.OK, "pod network", "supports Windows nodes", "", "")
	}
	switch {
	case current.Installed:
		found.add(advice.Info, "operator", "already installed in namespace "+current.Namespace, "Run kubectl windows check without --pre.", "")
	case current.Operator != nil:
		found.add(advice.Warning, "operator", "the original operator is installed: Deployment "+current.Operator.Name, "Run kubectl windows migrate --check.", "from-the-original")
	default:
		found.add(advice.OK, "operator", "not installed in namespace "+current.Namespace, "", "")
	}
	if current.KeyFault != "" {
		a := advice.All().For(api.ReasonPrivateKeyMissing)
		found.add(advice.Info, "SSH key", "Secret "+api.PrivateKeySecret+": "+current.KeyFault, a.Remedy, a.Page)
	}
	for _, entry := range slices.Sorted(maps.Keys(current.EntryFaults)) {
		found.add(advice.Error, "entry "+truncate.Printable(entry, truncate.Quoted), current.EntryFaults[entry], "Correct the entry of ConfigMap "+api.InstancesConfigMap+".", "machines")
	}
	for _, item := range slices.Sorted(maps.Keys(current.Unread)) {
		found.add(advice.Warning, item, "not checked: "+truncate.Printable(current.Unread[item], truncate.Note), "Run the command as a user with this permission.", "")
	}
}

// installing returns permissions that applying the manifests requires and that only a cluster administrator has.
func installing() []authorizationv1.ResourceAttributes {
	return []authorizationv1.ResourceAttributes{
		{Verb: "create", Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
		{Verb: "create", Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
		{Verb: "create", Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"},
		{Verb: "create", Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"},
		{Verb: "create", Resource: "namespaces"},
		{Verb: "create", Group: "apps", Resource: "deployments", Namespace: api.DefaultNamespace},
	}
}

func checkRights(ctx context.Context, s *session.Session, found *findings) error {
	c, err := s.Client()
	if err != nil {
		return err
	}
	var missing []string
	for _, right := range installing() {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &right}}
		if err := c.Create(ctx, review); err != nil {
			return session.Explain(err, "checking your permissions")
		}
		if !review.Status.Allowed {
			missing = append(missing, strings.TrimSuffix(right.Verb+" "+right.Resource+"."+right.Group, "."))
		}
	}
	if len(missing) > 0 {
		found.add(advice.Error, "rights", "missing: "+strings.Join(missing, ", "), "Install the operator as a cluster administrator.", "")
		return nil
	}
	found.add(advice.OK, "rights", "you are allowed to install the operator", "", "")
	return nil
}

const dialTimeout = 5 * time.Second

// checkHost connects to a host's SSH port and waits for the identification of an SSH server (RFC 4253, section 4.2).
func checkHost(ctx context.Context, found *findings, host string) {
	address := host
	if _, _, err := net.SplitHostPort(host); err != nil {
		address = net.JoinHostPort(host, "22")
	}
	reason, message := dialSSH(ctx, address)
	if reason == "" {
		found.add(advice.OK, "host "+host, "this machine can connect to its SSH server", "", "")
		return
	}
	a := advice.All().For(reason)
	found.add(advice.Error, "host "+host, "from this machine: "+message, a.Remedy, a.Page)
}

func dialSSH(ctx context.Context, address string) (reason, message string) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.As(err, &dns):
		return api.ReasonAddressUnresolvable, err.Error()
	case errors.As(err, &timeout) && timeout.Timeout():
		return api.ReasonConnectionTimeout, fmt.Sprintf("no answer from %s within %s", address, dialTimeout)
	case err != nil:
		return api.ReasonConnectionRefused, err.Error()
	}
	defer connection.Close()
	deadline, _ := ctx.Deadline()
	_ = connection.SetDeadline(deadline)
	greeting := make([]byte, 4)
	if n, _ := connection.Read(greeting); !strings.HasPrefix(string(greeting[:n]), "SSH-") {
		return api.ReasonNotSSH, "the server at " + address + " is not an SSH server"
	}
	return "", ""
}
