// Package csrapproval approves certificate requests of Windows hosts by the rules of package csr. It never denies one.
package csrapproval

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/admission"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/source"
	"github.com/windows-machine-config/wmco/internal/operator/csr"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

// recheckInterval is how often a pending request that broke a rule is checked again: a missing object (an instance, a Node) may have been created.
const recheckInterval = 15 * time.Second

// certificateWorkers is the number of concurrent decisions: a fleet that joins makes three requests per host.
const certificateWorkers = 16

// Controller approves the certificate requests of hosts, by the rules of package csr. It never denies one.
type Controller struct {
	Options
	decisions *prometheus.CounterVec
}

// Options are the controller's dependencies.
type Options struct {
	Client    client.Client
	Live      client.Reader
	Events    kube.Events
	Namespace string
	Reserved  *source.ReservedAddresses
	Policies  *admission.Policies
	// Machines are the APIs that may know the Machine of a host.
	Machines []Machines
	Settings Settings
	// CacheShare is the cache's share for certificate requests.
	CacheShare *kube.Share
	// Registry receives the metrics.
	Registry prometheus.Registerer
}

// Settings gives access to the published settings of nodes.
type Settings interface {
	// Declares reports whether any published version has a service of that name.
	Declares(ctx context.Context, service string) (bool, error)
}

// Machines finds the Machines of hosts.
type Machines interface {
	// AddressesOf returns the addresses and DNS names of an instance's Machine; none if there is no Machine.
	AddressesOf(ctx context.Context, i *v1alpha1.WindowsInstance) []string
}

// New returns the controller and registers its metrics.
func New(o Options) *Controller {
	c := &Controller{o, kube.NewCounter(api.MetricCertificateDecisions)}
	o.Registry.MustRegister(c.decisions)
	return c
}

// count counts a decision. Requesters can name any signer, so unknown ones are counted as "other".
func (c *Controller) count(signer, result, rule string) {
	switch signer {
	case certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.KubeletServingSignerName, certificatesv1.KubeAPIServerClientSignerName:
	default:
		signer = "other"
	}
	c.decisions.WithLabelValues(signer, result, rule).Inc()
}

// Register adds the controller to the manager.
func (c *Controller) Register(_ context.Context, m manager.Manager) error {
	undecided := predicate.NewPredicateFuncs(func(o client.Object) bool {
		return len(o.(*certificatesv1.CertificateSigningRequest).Status.Conditions) == 0
	})
	return builder.ControllerManagedBy(m).
		Named("certificatesigningrequest").
		For(&certificatesv1.CertificateSigningRequest{}, builder.WithPredicates(undecided)).
		WithOptions(controller.Options{MaxConcurrentReconciles: certificateWorkers}).
		Complete(reconcile.AsReconciler(m.GetClient(), c))
}

// Reconcile decides one request.
func (c *Controller) Reconcile(ctx context.Context, request *certificatesv1.CertificateSigningRequest) (reconcile.Result, error) {
	request, result, err := c.read(ctx, request)
	if request == nil || err != nil {
		return result, err
	}
	known, err := c.Known(ctx, strings.TrimPrefix(request.Spec.Username, csr.NodeUserPrefix))
	if err != nil {
		return reconcile.Result{}, err
	}
	if csr.IsForNodeManager(request) {
		if known.NodeManager, err = c.Settings.Declares(ctx, desired.NodeManagerService); err != nil {
			return reconcile.Result{}, err
		}
	}
	d := csr.Decide(request, known)
	if d.Verdict == csr.Approve && request.Spec.SignerName == certificatesv1.KubeletServingSignerName { // for addresses; the cache may lag behind Services
		if err := c.Reserved.AddLiveServices(ctx, &known.Cluster); err != nil {
			return reconcile.Result{}, err
		}
		d = csr.Decide(request, known)
	}
	switch d.Verdict {
	case csr.Approve:
		c.reportDisputes(ctx, request, d)
		err := c.approve(ctx, request, d)
		if err == nil {
			c.count(request.Spec.SignerName, "approved", "")
		}
		return reconcile.Result{}, err
	case csr.Refuse:
		c.count(request.Spec.SignerName, "refused", d.Rule)
		c.Events.Emit(kube.Event{Object: request, Type: corev1.EventTypeWarning, Reason: api.EventCertificateRefused, Action: d.Rule}, "rule %s: %s", d.Rule, d.Message)
		return reconcile.Result{RequeueAfter: recheckInterval}, nil
	}
	return reconcile.Result{}, nil
}

// reportDisputes reports Nodes that claim an address which has been proven to belong to another host.
func (c *Controller) reportDisputes(ctx context.Context, request *certificatesv1.CertificateSigningRequest, d csr.Decision) {
	for _, name := range d.Disputed {
		var node corev1.Node
		if err := c.Client.Get(ctx, types.NamespacedName{Name: name}, &node); err != nil {
			continue // the Node is gone, and its claim with it
		}
		c.Events.Emit(kube.Event{Object: &node, Related: request, Type: corev1.EventTypeWarning, Reason: api.EventAddressDisputed, Action: "Approve"},
			"status.addresses contains an address at which WindowsInstance %s was reached; check the kubelet's --node-ip on this Node, and which host has the address", d.Instance)
	}
}

// approve approves a request. It is not an error if the request is gone or was decided by another approver.
func (c *Controller) approve(ctx context.Context, request *certificatesv1.CertificateSigningRequest, d csr.Decision) error {
	log.FromContext(ctx).Info("Approving certificate request", "instance", d.Instance, "signer", request.Spec.SignerName)
	approved := request.DeepCopy()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if approved.UID != request.UID || len(approved.Status.Conditions) > 0 {
			return nil // another request of that name, or already decided
		}
		approved.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
			Type:    certificatesv1.CertificateApproved,
			Status:  corev1.ConditionTrue,
			Reason:  api.ApprovalReason,
			Message: fmt.Sprintf("the request meets all rules for WindowsInstance %s", d.Instance),
		}}
		err := c.Client.SubResource("approval").Update(ctx, approved)
		if !apierrors.IsConflict(err) {
			return err
		}
		// Another field has changed, or the operator's own approval succeeded although its response was lost. The fields decided on are immutable.
		*approved = certificatesv1.CertificateSigningRequest{}
		return cmp.Or(c.Live.Get(ctx, client.ObjectKeyFromObject(request), approved), err)
	})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("approving certificate request %s: %w", request.Name, err)
	}
	return nil
}

// Known gathers the cluster state that the rules need. Machine addresses are looked up only for the host of the given node.
func (c *Controller) Known(ctx context.Context, node string) (csr.Known, error) {
	var instances v1alpha1.WindowsInstanceList
	if err := c.Client.List(ctx, &instances, client.UnsafeDisableDeepCopy); err != nil {
		return csr.Known{}, fmt.Errorf("listing WindowsInstances: %w", err)
	}
	var nodes corev1.NodeList
	if err := c.Client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return csr.Known{}, fmt.Errorf("listing Nodes: %w", err)
	}
	config, err := kube.ReadConfig(ctx, c.Client)
	if err != nil {
		return csr.Known{}, err
	}
	reserved, err := c.Reserved.Read(ctx, config)
	if err != nil && (len(reserved.Servers) == 0 || len(reserved.Services) == 0) {
		return csr.Known{}, err // an unknown pod network alone must not block renewals
	}
	if err := c.Reserved.AddServices(ctx, &reserved); err != nil {
		return csr.Known{}, err
	}
	finding, err := c.Policies.Check(ctx)
	if err != nil {
		log.FromContext(ctx).Info("Reading admission policies failed", "error", err.Error())
		finding = "the admission policies could not be read" // requests of kubelets continue: the policies do not limit kubelets
	}
	known := csr.Known{Namespace: c.Namespace, PoliciesFault: finding, Nodes: map[string]csr.Node{}, Cluster: reserved}
	byName := map[string]*corev1.Node{}
	for i := range nodes.Items {
		byName[nodes.Items[i].Name] = &nodes.Items[i]
		known.Nodes[nodes.Items[i].Name] = nodeOf(&nodes.Items[i])
	}
	for i := range instances.Items {
		current := &instances.Items[i]
		var published []string
		if node != "" && current.Status.Hostname == node {
			for _, m := range c.Machines {
				published = append(published, m.AddressesOf(ctx, current)...)
			}
		}
		h := hostOf(current, published)
		n := byName[current.Status.Hostname]
		h.Registered = n != nil && nodestate.ClaimOf(current, n) == nodestate.Own
		h.Serves = h.Registered && current.Status.NodeRef != nil
		known.Hosts = append(known.Hosts, h)
	}
	return known, nil
}

func hostOf(i *v1alpha1.WindowsInstance, published []string) csr.Host {
	h := csr.Host{
		Instance:     i.Namespace + "/" + i.Name,
		Node:         i.Status.Hostname,
		CredentialID: i.Status.BootstrapCredentialID,
		Leaving:      i.DeletionTimestamp != nil,
		KeyKnown:     i.Spec.HostKey != "",
	}
	if i.Status.NodeIP != "" {
		h.Addresses = append(h.Addresses, i.Status.NodeIP)
	}
	if _, err := netip.ParseAddr(i.Spec.Address); err == nil {
		h.Addresses = append(h.Addresses, i.Spec.Address)
	} else {
		h.DNSName = strings.ToLower(i.Spec.Address)
	}
	for _, text := range append(published, i.Spec.AdditionalAddresses...) {
		if _, err := netip.ParseAddr(text); err == nil {
			h.CloudAddresses = append(h.CloudAddresses, text)
		} else if name := strings.ToLower(text); len(validation.IsDNS1123Subdomain(name)) == 0 {
			h.CloudNames = append(h.CloudNames, name)
		}
	}
	return h
}

func nodeOf(n *corev1.Node) csr.Node {
	node := csr.Node{OS: n.Labels[corev1.LabelOSStable], PodCIDRs: n.Spec.PodCIDRs, Ready: nodestate.IsReady(n)}
	for _, a := range n.Status.Addresses {
		switch a.Type {
		case corev1.NodeInternalIP, corev1.NodeExternalIP:
			node.Addresses = append(node.Addresses, a.Address)
		case corev1.NodeHostName, corev1.NodeInternalDNS, corev1.NodeExternalDNS:
			node.Names = append(node.Names, strings.ToLower(a.Address))
		}
	}
	return node
}
