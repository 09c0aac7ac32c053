package acceptance

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The identity of a node for OVN-Kubernetes, as internal/node/overlay requests it. In a real cluster, ovnkube-identity approves the request, and a role of
// OVN-Kubernetes grants the group what a node needs. This cluster has neither.
const (
	overlayUser  = "system:ovn-node:"
	overlayGroup = "system:ovn-nodes"
	nodeUser     = "system:node:"
	ofRequests   = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	ofRoles      = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
	ofBindings   = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
)

// allowOverlay grants the group of nodes the rights that the overlay needs.
func (j *joining) allowOverlay(ctx context.Context) error {
	meta := metav1.ObjectMeta{Name: "wmco-acceptance-overlay"}
	return errors.Join(
		j.api.create(ctx, ofRoles, rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}},
			{APIGroups: []string{certificatesv1.GroupName}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create", "get", "list", "watch"}},
		}}, nil),
		j.api.create(ctx, ofBindings, rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: overlayGroup}},
		}, nil))
}

// approveOverlay approves this node's request for its OVN-Kubernetes identity, as ovnkube-identity does.
func (j *joining) approveOverlay(ctx context.Context) error {
	node, err := j.node(ctx)
	if err != nil {
		return nil // there is no node yet
	}
	var list certificatesv1.CertificateSigningRequestList
	if err := j.api.get(ctx, ofRequests, &list); err != nil {
		return err
	}
	for _, r := range list.Items {
		if !isOverlayRequest(r, node.Name) {
			continue
		}
		r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Acceptance", Message: "in place of ovnkube-identity",
		}}
		if err := j.api.patch(ctx, ofRequests+"/"+r.Name+"/approval", map[string]any{"status": map[string]any{"conditions": r.Status.Conditions}}); err != nil {
			return err
		}
	}
	return nil
}

// isOverlayRequest reports whether this is a pending request of the node for its own OVN-Kubernetes identity.
func isOverlayRequest(r certificatesv1.CertificateSigningRequest, node string) bool {
	isNode := r.Spec.Username == nodeUser+node || r.Spec.Username == overlayUser+node
	if len(r.Status.Conditions) > 0 || r.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName || !isNode {
		return false
	}
	block, _ := pem.Decode(r.Spec.Request)
	if block == nil {
		return false
	}
	requested, err := x509.ParseCertificateRequest(block.Bytes)
	return err == nil && requested.Subject.CommonName == overlayUser+node && slices.Equal(requested.Subject.Organization, []string{overlayGroup})
}
