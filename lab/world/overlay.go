//go:build linux

package world

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Annotations of Nodes that OVN-Kubernetes and the overlay on the hosts write.
const (
	AnnotationSubnet       = "k8s.ovn.org/hybrid-overlay-node-subnet"
	AnnotationLinuxSubnets = "k8s.ovn.org/node-subnets"
	AnnotationRouterMAC    = "k8s.ovn.org/hybrid-overlay-distributed-router-gateway-mac"
)

// overlayGroup is that of the certificates that the overlay's programs ask for.
const overlayGroup = "system:ovn-nodes"

// masterEvery is how often the master looks.
const masterEvery = 250 * time.Millisecond

// playOVN does what OVN-Kubernetes' master does for Windows nodes, until ctx is done: it lets their overlay read and annotate Nodes,
// approves its certificates, and gives each node a subnet: the range of pods that the control plane gave it.
func playOVN(ctx context.Context, c client.Client, config *rest.Config, log io.Writer) error {
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	meta := metav1.ObjectMeta{Name: "ovn-nodes"}
	role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}},
		{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create", "get", "list", "watch"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: overlayGroup}},
	}
	if err := errors.Join(c.Create(ctx, role), c.Create(ctx, binding)); err != nil {
		return fmt.Errorf("letting the overlay's programs in: %w", err)
	}
	go func() {
		for tick := time.NewTicker(masterEvery); ctx.Err() == nil; {
			if err := errors.Join(giveSubnets(ctx, c), approveOverlay(ctx, c, set)); err != nil && ctx.Err() == nil {
				fmt.Fprintf(log, "the part of OVN-Kubernetes: %v\n", err)
			}
			select {
			case <-ctx.Done():
				tick.Stop()
			case <-tick.C:
			}
		}
	}()
	return nil
}

func giveSubnets(ctx context.Context, c client.Client) error {
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes, client.MatchingLabels{corev1.LabelOSStable: "windows"}); err != nil {
		return err
	}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		if n.Annotations[AnnotationSubnet] != "" || n.Spec.PodCIDR == "" {
			continue
		}
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, AnnotationSubnet, n.Spec.PodCIDR)
		if err := c.Patch(ctx, n, client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("giving node %s a subnet: %w", n.Name, err)
		}
	}
	return nil
}

// approveOverlay approves the requests of nodes for their own overlay, as OVN-Kubernetes' node identity does.
func approveOverlay(ctx context.Context, c client.Client, set kubernetes.Interface) error {
	var requests certificatesv1.CertificateSigningRequestList
	if err := c.List(ctx, &requests); err != nil {
		return err
	}
	for i := range requests.Items {
		r := &requests.Items[i]
		if len(r.Status.Conditions) > 0 || !isOverlays(r) {
			continue
		}
		r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "NodeIdentity", Message: "a node asks for its overlay",
		}}
		if _, err := set.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, r.Name, r, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("approving %s: %w", r.Name, err)
		}
	}
	return nil
}

func isOverlays(r *certificatesv1.CertificateSigningRequest) bool {
	block, _ := pem.Decode(r.Spec.Request)
	if block == nil || r.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return false
	}
	asked, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return false
	}
	node, isNode := strings.CutPrefix(r.Spec.Username, "system:node:")
	if !isNode {
		node, isNode = strings.CutPrefix(r.Spec.Username, "system:ovn-node:")
	}
	return isNode && asked.Subject.CommonName == "system:ovn-node:"+node && strings.Join(asked.Subject.Organization, " ") == overlayGroup
}

// AddLinuxNode makes a Node of a Linux worker that takes part in the overlay. Nothing runs there.
func (w *World) AddLinuxNode(ctx context.Context, name, address, subnet, mac string) (*corev1.Node, error) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{corev1.LabelOSStable: "linux"},
		Annotations: map[string]string{AnnotationLinuxSubnets: fmt.Sprintf(`{"default":[%q]}`, subnet), AnnotationRouterMAC: mac},
	}}
	if err := w.Client.Create(ctx, n); err != nil {
		return nil, fmt.Errorf("making Node %s: %w", name, err)
	}
	patch := fmt.Appendf(nil, `{"status":{"addresses":[{"type":"InternalIP","address":%q}]}}`, address)
	if err := w.Client.Status().Patch(ctx, n, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return nil, fmt.Errorf("giving Node %s its address: %w", name, err)
	}
	return n, nil
}
