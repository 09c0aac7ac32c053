package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/cli/terminal"
	"github.com/windows-machine-config/wmco/internal/observe/advice"
	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
)

type finding struct {
	// Severity is ok, info, warning or error.
	Severity advice.Severity `json:"severity"`
	// Check names the check.
	Check   string `json:"check"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
	Docs    string `json:"docs,omitempty"`
}

type findings []finding

func (f *findings) add(severity advice.Severity, check, message, remedy, page string) {
	current := finding{Severity: severity, Check: check, Message: message, Remedy: remedy}
	if page != "" {
		current.Docs = advice.URL(page)
	}
	*f = append(*f, current)
}

// check returns the command that checks a cluster before or after the operator is installed.
func check(s *session.Session) *cobra.Command {
	var o output
	var before preflight
	c := &cobra.Command{
		Use:   "check",
		Short: "Check the operator and all hosts, or with --pre, a cluster before installation",
		Long: "Check the operator, its SSH key and settings, all hosts and Nodes, certificate requests, and PodDisruptionBudgets that block drains.\n" +
			"Each finding includes a remedy. The exit code is 3 if there is an error.\n\n" +
			"With --pre, check a cluster before the operator is installed: the version of Kubernetes, the pod network, your permissions, other operators,\n" +
			"and whether this machine can connect to the SSH port of hosts (--host). The operator must be able to connect to it from its node.",
		Example: "  kubectl windows check\n  kubectl windows check --pre --host 10.1.42.1 --host 10.1.42.2\n  kubectl windows check -o json",
		Args:    rejectArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			run := checkInstalled
			if before.pre {
				run = before.run
			} else if len(before.hosts) > 0 {
				return session.Failf(session.CodeUsage, "--host requires --pre")
			}
			found, err := run(c.Context(), s)
			if err != nil {
				return err
			}
			return printFindings(s, &o, found)
		},
	}
	o.add(c, formatJSON, formatYAML)
	c.Flags().BoolVar(&before.pre, "pre", false, "Check a cluster before the operator is installed.")
	c.Flags().StringArrayVar(&before.hosts, "host", nil, "With --pre: address of a host to check the SSH port of, with or without a port; can be repeated.")
	return c
}

func printFindings(s *session.Session, o *output, found findings) error {
	failed := 0
	for _, f := range found {
		if f.Severity == advice.Error {
			failed++
		}
	}
	err := o.show(s, found, func(p *terminal.Printer) {
		for _, f := range found {
			p.Text(0, styleOf(string(f.Severity)), mark(string(f.Severity))+" "+f.Check+": "+f.Message)
			if f.Remedy != "" {
				p.Text(4, terminal.Bold, "→ "+f.Remedy)
			}
			if f.Docs != "" {
				p.Text(4, terminal.Faint, f.Docs)
			}
		}
	})
	if err == nil && failed > 0 {
		err = session.Failf(session.CodeFindings, "%d of %d checks found an error", failed, len(found))
	}
	return err
}

func checkInstalled(ctx context.Context, s *session.Session) (findings, error) {
	in, err := s.Read(ctx)
	if err != nil {
		return nil, err
	}
	c, err := s.Client()
	if err != nil {
		return nil, err
	}
	f := fleetstatus.Of(in)
	found := &findings{}
	if f.Operator.Found && f.Operator.Ready {
		found.add(advice.OK, "operator", fmt.Sprintf("version %s is Ready in namespace %s", f.Operator.Version, f.Namespace), "", "")
	}
	k := checker{client: c, in: in, found: found}
	k.lease(ctx)
	k.key(ctx)
	k.config()
	k.requests(ctx)
	k.budgets(ctx)
	for _, p := range f.Problems {
		message := p.Message
		if len(p.Hosts) > 1 {
			message = fmt.Sprintf("on %d hosts (%s): %s", len(p.Hosts), names(p.Hosts), message)
		}
		*found = append(*found, finding{p.Severity, p.Object + " " + p.Reason, message, p.Remedy, p.Docs})
	}
	if n := f.Counts.States[fleetstatus.Ready]; n == f.Counts.Total {
		found.add(advice.OK, "hosts", fmt.Sprintf("all %d are Ready", n), "", "")
	} else {
		found.add(advice.Info, "hosts", fmt.Sprintf("%d of %d are Ready", n, f.Counts.Total), "See kubectl windows status.", "")
	}
	for _, u := range f.Unread {
		found.add(advice.Warning, u.What, "not all were checked: "+u.Why, "If a permission is missing, run the command as a user who has it.", "")
	}
	return *found, nil
}

// checker runs the checks that the fleet status does not cover.
type checker struct {
	client client.Client
	in     fleetstatus.Input
	found  *findings
}

// unread adds a finding for a failed read and reports whether it failed.
func (k checker) unread(check string, err error) bool {
	if err == nil {
		return false
	}
	k.found.add(advice.Warning, check, "not checked: "+session.Explain(err, "reading").Error(), "Run the command as a user with this permission.", "")
	return true
}

// leaseStale is the age from which the Lease means a dead operator. It is renewed every five seconds, and an operator that could not renew it for 107
// seconds ends.
const leaseStale = 2 * time.Minute

func (k checker) lease(ctx context.Context) {
	var lease coordinationv1.Lease
	err := k.client.Get(ctx, client.ObjectKey{Namespace: k.in.Namespace, Name: fleetstatus.DeploymentName}, &lease)
	const check, page = "leader", "troubleshooting#the-operator-does-not-start"
	switch {
	case apierrors.IsNotFound(err):
		k.found.add(advice.Error, check, "no operator has run in namespace "+k.in.Namespace, "Install the operator, or name its namespace with -n.", page)
	case k.unread(check, err):
	case lease.Spec.RenewTime == nil || time.Since(lease.Spec.RenewTime.Time) > leaseStale:
		k.found.add(advice.Error, check, "the operator has not renewed its Lease for more than two minutes: it is not working",
			"Run kubectl describe pod and kubectl logs for the operator's pod.", page)
	default:
		k.found.add(advice.OK, check, "the operator is running", "", "")
	}
}

// key checks whether the SSH key exists. It does not print its content.
func (k checker) key(ctx context.Context) {
	var secret corev1.Secret
	err := k.client.Get(ctx, client.ObjectKey{Namespace: k.in.Namespace, Name: api.PrivateKeySecret}, &secret)
	a := advice.All().For(api.ReasonPrivateKeyMissing)
	switch {
	case apierrors.IsForbidden(err): // users need no permission to read Secrets
		k.found.add(advice.Info, "SSH key", "not checked: you may not read Secret "+api.PrivateKeySecret, "", "")
	case apierrors.IsNotFound(err):
		k.found.add(advice.Error, "SSH key", "Secret "+api.PrivateKeySecret+" does not exist", a.Remedy, a.Page)
	case k.unread("SSH key", err):
	case len(secret.Data[api.PrivateKeyKey]) == 0:
		k.found.add(advice.Error, "SSH key", "Secret "+api.PrivateKeySecret+" has no key "+api.PrivateKeyKey, a.Remedy, a.Page)
	default:
		k.found.add(advice.OK, "SSH key", "Secret "+api.PrivateKeySecret+" contains a key", "", "")
	}
}

func (k checker) config() {
	if slices.ContainsFunc(k.in.Unread, func(u fleetstatus.Unread) bool { return u.What == "windowsconfigs" }) {
		return
	}
	if k.in.Config == nil {
		a := advice.All().For(api.ReasonNetworkNotConfigured)
		k.found.add(advice.Info, "settings", "there is no WindowsConfig, so defaults apply", "If hosts report "+api.ReasonNetworkNotConfigured+", set spec.network.", a.Page)
		return
	}
	status := k.in.Config.Status
	if status.UpdatedNodes < status.Nodes {
		k.found.add(advice.Warning, "settings", fmt.Sprintf("%d of %d nodes have the published settings", status.UpdatedNodes, status.Nodes),
			"Wait a minute; if this persists, find out which nodes differ.", "troubleshooting#settings-do-not-arrive")
		return
	}
	k.found.add(advice.OK, "settings", fmt.Sprintf("all %d nodes have the published settings", status.Nodes), "", "")
}

// requestLate is how long a node's certificate request may be pending.
const requestLate = 5 * time.Minute

func (k checker) requests(ctx context.Context) {
	var list certificatesv1.CertificateSigningRequestList
	if k.unread("certificate requests", k.client.List(ctx, &list)) {
		return
	}
	nodes := map[string]bool{}
	for i := range k.in.Instances {
		nodes["system:node:"+k.in.Instances[i].Status.Hostname] = true
	}
	var pending []string
	for i := range list.Items {
		r := &list.Items[i]
		fromHost := nodes[r.Spec.Username] || strings.HasSuffix(r.Spec.Username, ":"+api.BootstrapServiceAccount) || strings.HasPrefix(r.Spec.Username, api.WICDUserPrefix)
		if fromHost && len(r.Status.Conditions) == 0 && time.Since(r.CreationTimestamp.Time) > requestLate {
			pending = append(pending, r.Name)
		}
	}
	if len(pending) > 0 {
		k.found.add(advice.Warning, "certificate requests", fmt.Sprintf("requests of hosts pending for more than five minutes: %d (%s)", len(pending), names(pending)),
			"Run kubectl describe csr <name>: events say which rule it breaks.", "machines#certificate-requests")
		return
	}
	k.found.add(advice.OK, "certificate requests", "no request of a host is pending", "", "")
}

func (k checker) budgets(ctx context.Context) {
	var list policyv1.PodDisruptionBudgetList
	if k.unread("PodDisruptionBudgets", k.client.List(ctx, &list)) {
		return
	}
	var blocking []string
	for _, b := range list.Items {
		if b.Status.DisruptionsAllowed == 0 && b.Status.ExpectedPods > 0 {
			blocking = append(blocking, b.Namespace+"/"+b.Name)
		}
	}
	if len(blocking) > 0 {
		k.found.add(advice.Info, "PodDisruptionBudgets", fmt.Sprintf("budgets that allow no disruptions and would block a drain of their pods: %d (%s)", len(blocking), names(blocking)),
			advice.All().For(api.ReasonDrainBlocked).Remedy, "fleet#drain")
		return
	}
	k.found.add(advice.OK, "PodDisruptionBudgets", "all allow disruptions", "", "")
}
