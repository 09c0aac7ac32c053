package cli

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/cli/terminal"
	"github.com/windows-machine-config/wmco/internal/operator/networkpolicy"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/policyset"
)

// policyOptions ask for one connection, if from or to is set.
type policyOptions struct {
	from, to, port string
}

// podPolicies are the NetworkPolicies of a pod and what follows from them.
type podPolicies struct {
	Pod  string `json:"pod"`
	Node string `json:"node"`
	// Mode is spec.network.policies of WindowsConfig; empty if it is not set.
	Mode v1alpha1.NetworkPolicies `json:"mode,omitempty"`
	// Published is false if the operator published nothing about the pod's namespace.
	Published bool `json:"published"`
	// Listed is false if the operator has not seen the pod yet.
	Listed   bool           `json:"listed"`
	Ingress  string         `json:"ingress"`
	Egress   string         `json:"egress"`
	Policies []podPolicy    `json:"policies,omitempty"`
	Rules    []endpointRule `json:"rules,omitempty"`
	// Connection is the requested one, as text.
	Connection string             `json:"connection,omitempty"`
	Verdict    *policyset.Verdict `json:"verdict,omitempty"`
}

// podPolicy is a NetworkPolicy that selects the pod, and what it does in each direction.
type podPolicy struct {
	Name    string `json:"name"`
	Ingress string `json:"ingress"`
	Egress  string `json:"egress"`
}

// endpointRule is a rule of the pod's endpoint. Empty lists mean any.
type endpointRule struct {
	Priority  uint16   `json:"priority"`
	Direction string   `json:"direction"`
	Action    string   `json:"action"`
	Protocol  string   `json:"protocol"`
	Ports     []string `json:"ports,omitempty"`
	Remote    []string `json:"remote,omitempty"`
}

// policy returns the command that shows the NetworkPolicies of a pod.
func policy(s *session.Session) *cobra.Command {
	var o output
	var options policyOptions
	c := &cobra.Command{
		Use:   "policy NAMESPACE/POD",
		Short: "Show which NetworkPolicies restrict a pod on a Windows node",
		Long: "Show which NetworkPolicies select a pod on a Windows node, and which rules its node writes to the pod's endpoint. With --from or --to, show\n" +
			"whether they allow a connection, and why. The command reads what the operator published for the nodes, and does not contact them: it does not\n" +
			"show the addresses of the node in its pod network, which may always connect to the pod.\n\n" +
			"It exits with 3 if the connection is not allowed.",
		Example: "  kubectl windows policy shop/web-1\n" +
			"  kubectl windows policy shop/web-1 --from 10.132.0.7 --port 8080\n" +
			"  kubectl windows policy shop/web-1 --to 10.96.0.10 --port 53/UDP",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 || strings.Count(args[0], "/") != 1 || strings.HasPrefix(args[0], "/") || strings.HasSuffix(args[0], "/") {
				return session.Failf(session.CodeUsage, "%s requires one pod, as NAMESPACE/POD", c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			connection, err := options.connection()
			if err != nil {
				return err
			}
			namespace, name, _ := strings.Cut(args[0], "/")
			found, err := readPodPolicies(c.Context(), s, types.NamespacedName{Namespace: namespace, Name: name}, connection)
			if err != nil {
				return err
			}
			if err := o.show(s, found, func(p *terminal.Printer) { printPodPolicies(p, found) }); err != nil {
				return err
			}
			if found.Verdict != nil && !found.Verdict.Allowed {
				return session.Failf(session.CodeFindings, "")
			}
			return nil
		},
	}
	o.add(c, formatJSON, formatYAML)
	c.Flags().StringVar(&options.from, "from", "", "IPv4 address from which a connection to the pod comes.")
	c.Flags().StringVar(&options.to, "to", "", "IPv4 address to which the pod connects. For a Service, use the address of one of its endpoints.")
	c.Flags().StringVar(&options.port, "port", "", "Destination port of the connection, such as 80, 53/UDP or 80/TCP. Protocols: TCP, UDP, SCTP. Defaults to TCP.")
	return c
}

// connection returns the requested connection; nil if none is.
func (o policyOptions) connection() (*policyset.Connection, error) {
	if o.from == "" && o.to == "" && o.port == "" {
		return nil, nil
	}
	if (o.from == "") == (o.to == "") || o.port == "" {
		return nil, session.Failf(session.CodeUsage, "a connection requires --port and one of --from and --to")
	}
	c := &policyset.Connection{Direction: hns.In, Protocol: hns.TCP}
	flag, text := "--from", o.from
	if o.to != "" {
		c.Direction, flag, text = hns.Out, "--to", o.to
	}
	address, err := netip.ParseAddr(text)
	if err != nil || !address.Is4() {
		return nil, session.Failf(session.CodeUsage, "%s is %.64q; an IPv4 address is required", flag, text)
	}
	port, protocol, named := strings.Cut(o.port, "/")
	number, err := strconv.ParseUint(port, 10, 16)
	known := true
	if named {
		c.Protocol, known = hns.ProtocolOf(strings.ToUpper(protocol))
	}
	if err != nil || number == 0 || !known {
		return nil, session.Failf(session.CodeUsage, "--port is %.64q; a port from 1 to 65535 is required, alone or with /TCP, /UDP or /SCTP", o.port)
	}
	c.Remote, c.Port = address, uint16(number)
	return c, nil
}

// readPodPolicies reads the pod, its node, and what the operator published about its namespace.
func readPodPolicies(ctx context.Context, s *session.Session, name types.NamespacedName, connection *policyset.Connection) (podPolicies, error) {
	c, err := s.Client()
	if err != nil {
		return podPolicies{}, err
	}
	operator, err := s.OperatorNamespace(ctx)
	if err != nil {
		return podPolicies{}, err
	}
	var pod corev1.Pod
	if err := c.Get(ctx, name, &pod); apierrors.IsNotFound(err) {
		return podPolicies{}, session.Failf(session.CodeNotFound, "there is no pod %s", name)
	} else if err != nil {
		return podPolicies{}, session.Explain(err, "reading pod "+name.String())
	}
	found := podPolicies{Pod: name.String(), Node: pod.Spec.NodeName}
	node, err := readNodeOfPod(ctx, c, &pod)
	if err != nil {
		return found, err
	}
	var config v1alpha1.WindowsConfig
	if err := c.Get(ctx, types.NamespacedName{Name: api.WindowsConfigName}, &config); client.IgnoreNotFound(err) != nil {
		return found, session.Explain(err, "reading WindowsConfig "+api.WindowsConfigName)
	}
	if config.Spec.Network.Provider == v1alpha1.NetworkCustom {
		return found, session.Failf(session.CodeFailed, "spec.network.provider of WindowsConfig is Custom: NetworkPolicies of pods on Windows nodes are up to your network")
	}
	found.Mode = config.Spec.Network.Policies
	set, published, err := readPolicySet(ctx, c, operator, name.Namespace)
	if err != nil {
		return found, err
	}
	found.Published = published
	facts := policyset.Facts{
		Node: addressesOf(node.Status.Addresses), Own: podAddresses(&pod),
		OpenIfTooLarge: config.Spec.Network.PolicyFallback == v1alpha1.FallbackOpen,
	}
	found.decide(set, policyset.PodID{Name: pod.Name, UID: networkpolicy.UIDOf(&pod)}, facts, connection)
	return found, nil
}

// readNodeOfPod returns the pod's node, or an error if NetworkPolicies do not reach the pod in the way that this command explains.
func readNodeOfPod(ctx context.Context, c client.Client, pod *corev1.Pod) (*corev1.Node, error) {
	name := pod.Namespace + "/" + pod.Name
	if pod.Spec.HostNetwork {
		return nil, session.Failf(session.CodeFailed, "pod %s is on its node's network: NetworkPolicies do not restrict such pods", name)
	}
	if pod.Spec.NodeName == "" {
		return nil, session.Failf(session.CodeFailed, "pod %s has no node yet", name)
	}
	var node corev1.Node
	if err := c.Get(ctx, types.NamespacedName{Name: pod.Spec.NodeName}, &node); err != nil {
		return nil, session.Explain(err, "reading node "+pod.Spec.NodeName)
	}
	if node.Labels[corev1.LabelOSStable] != string(corev1.Windows) {
		return nil, session.Failf(session.CodeFailed, "pod %s is on node %s, which is not a Windows node: its network enforces NetworkPolicies there", name, node.Name)
	}
	return &node, nil
}

// readPolicySet returns what the operator published about a namespace, as nodes read it.
func readPolicySet(ctx context.Context, c client.Client, operator, namespace string) (set policyset.Set, published bool, err error) {
	var object v1alpha1.WindowsPolicySet
	err = c.Get(ctx, types.NamespacedName{Namespace: operator, Name: namespace}, &object)
	if apierrors.IsNotFound(err) {
		return policyset.Set{Namespace: namespace}, false, nil
	}
	if err != nil {
		return set, false, session.Explain(err, fmt.Sprintf("reading WindowsPolicySet %s in namespace %s", namespace, operator))
	}
	set, err = policyset.Decode(namespace, []byte(object.Spec.Set))
	if err != nil {
		return set, false, session.Failf(session.CodeFailed, "WindowsPolicySet %s in namespace %s is not readable by this version of kubectl windows: %w; use the version of the operator", namespace, operator, err)
	}
	return set, true, nil
}

func addressesOf(list []corev1.NodeAddress) (addresses []netip.Addr) {
	for _, a := range list {
		if address, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

func podAddresses(pod *corev1.Pod) (addresses []netip.Addr) {
	for _, ip := range pod.Status.PodIPs {
		if address, err := netip.ParseAddr(ip.IP); err == nil {
			addresses = append(addresses, address)
		}
	}
	return addresses
}
