//go:build linux

package testenv

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

// The user and group in the certificates of hybrid-overlay-node.
const (
	OverlayUserPrefix = "system:ovn-node:"
	OverlayGroup      = "system:ovn-nodes"
)

// masterInterval is how often runOVNMaster reads the cluster.
const masterInterval = 250 * time.Millisecond

// runOVNMaster does for Windows nodes what OVN-Kubernetes' master does, until ctx is done: it permits hybrid-overlay-node to read and
// annotate Nodes, approves its certificate requests, and assigns each node its PodCIDR as subnet.
func runOVNMaster(ctx context.Context, c client.Client, clients kubernetes.Interface, log io.Writer) error {
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
		return fmt.Errorf("creating the permissions of hybrid-overlay-node: %w", err)
	}
	go func() {
		for tick := time.NewTicker(masterInterval); ctx.Err() == nil; {
			if err := errors.Join(assignSubnets(ctx, c), Approve(ctx, clients, isOfNode)); err != nil && ctx.Err() == nil {
				fmt.Fprintf(log, "OVN-Kubernetes' master: %v\n", err)
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

func assignSubnets(ctx context.Context, c client.Client) error {
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
			return fmt.Errorf("annotating node %s with its subnet: %w", n.Name, err)
		}
	}
	return nil
}

// Approve approves pending certificate requests of hybrid-overlay-node for which may returns true. User is the requester.
func Approve(ctx context.Context, clients kubernetes.Interface, may func(user string, request *x509.CertificateRequest) bool) error {
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
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "NodeIdentity", Message: "requested by the node",
		}}
		if _, err := requests.UpdateApproval(ctx, r.Name, r, metav1.UpdateOptions{}); err != nil {
			failed = errors.Join(failed, fmt.Errorf("approving %s: %w", r.Name, err))
		}
	}
	return failed
}

// isOfNode reports whether a node requests a certificate for itself, as OVN-Kubernetes' node identity does.
func isOfNode(user string, asked *x509.CertificateRequest) bool {
	node, isNode := strings.CutPrefix(user, "system:node:")
	if !isNode {
		node, isNode = strings.CutPrefix(user, OverlayUserPrefix)
	}
	return isNode && asked.Subject.CommonName == OverlayUserPrefix+node && slices.Equal(asked.Subject.Organization, []string{OverlayGroup})
}

// AddLinuxNode creates the Node of a Linux worker in the hybrid overlay. Nothing runs there.
func (env *Env) AddLinuxNode(ctx context.Context, name, address, subnet, mac string) (*corev1.Node, error) {
	return AddNode(ctx, env.Clients, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{corev1.LabelOSStable: "linux"},
		Annotations: map[string]string{overlay.LinuxSubnetsAnnotation: fmt.Sprintf(`{"default":[%q]}`, subnet), overlay.RouterMACAnnotation: mac},
	}}, address)
}
