//go:build linux

package world

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/internal/overlay"
)

// The identity of a node's overlay, which its programs ask a certificate for.
const (
	OverlayUserPrefix = "system:ovn-node:"
	OverlayGroup      = "system:ovn-nodes"
)

// masterEvery is how often the master looks.
const masterEvery = 250 * time.Millisecond

// playOVN does what OVN-Kubernetes' master does for Windows nodes, until ctx is done: it lets their overlay read and annotate Nodes,
// approves its certificates, and gives each node a subnet: the range of pods that the control plane gave it.
func playOVN(ctx context.Context, c client.Client, clients kubernetes.Interface, log io.Writer) error {
	meta := metav1.ObjectMeta{Name: "ovn-nodes"}
	role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}},
		{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create", "get", "list", "watch"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: OverlayGroup}},
	}
	if err := errors.Join(c.Create(ctx, role), c.Create(ctx, binding)); err != nil {
		return fmt.Errorf("letting the overlay's programs in: %w", err)
	}
	go func() {
		for tick := time.NewTicker(masterEvery); ctx.Err() == nil; {
			if err := errors.Join(giveSubnets(ctx, c), Approve(ctx, clients, isOfNode)); err != nil && ctx.Err() == nil {
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
		if n.Annotations[overlay.SubnetAnnotation] != "" || n.Spec.PodCIDR == "" {
			continue
		}
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, overlay.SubnetAnnotation, n.Spec.PodCIDR)
		if err := c.Patch(ctx, n, client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("giving node %s a subnet: %w", n.Name, err)
		}
	}
	return nil
}

// Approve approves the requests of the overlay for certificates that nobody has decided about, where may agrees: user asks for asked.
func Approve(ctx context.Context, clients kubernetes.Interface, may func(user string, asked *x509.CertificateRequest) bool) error {
	requests := clients.CertificatesV1().CertificateSigningRequests()
	list, err := requests.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var failed error
	for i := range list.Items {
		r := &list.Items[i]
		block, _ := pem.Decode(r.Spec.Request)
		if len(r.Status.Conditions) > 0 || block == nil || r.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
			continue
		}
		asked, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil || !may(r.Spec.Username, asked) {
			continue
		}
		r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "NodeIdentity", Message: "a node asks for its overlay",
		}}
		if _, err := requests.UpdateApproval(ctx, r.Name, r, metav1.UpdateOptions{}); err != nil {
			failed = errors.Join(failed, fmt.Errorf("approving %s: %w", r.Name, err))
		}
	}
	return failed
}

// isOfNode tells whether a node asks for its own overlay, as OVN-Kubernetes' node identity does.
func isOfNode(user string, asked *x509.CertificateRequest) bool {
	node, isNode := strings.CutPrefix(user, "system:node:")
	if !isNode {
		node, isNode = strings.CutPrefix(user, OverlayUserPrefix)
	}
	return isNode && asked.Subject.CommonName == OverlayUserPrefix+node && slices.Equal(asked.Subject.Organization, []string{OverlayGroup})
}

// AddLinuxNode makes a Node of a Linux worker that takes part in the overlay. Nothing runs there.
func (w *World) AddLinuxNode(ctx context.Context, name, address, subnet, mac string) (*corev1.Node, error) {
	return AddNode(ctx, w.Clients, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{corev1.LabelOSStable: "linux"},
		Annotations: map[string]string{overlay.LinuxSubnetsAnnotation: fmt.Sprintf(`{"default":[%q]}`, subnet), overlay.RouterMACAnnotation: mac},
	}}, address)
}
