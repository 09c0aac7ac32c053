//go:build linux

package ovn

import (
	"context"
	"errors"
	"fmt"
	"net"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"
)

// A webhookServer is the listener at which the API server calls the webhook, and its self-signed certificate.
type webhookServer struct {
	net.Listener
	cert, key []byte
}

func listen() (*webhookServer, error) {
	loopback := net.IPv4(127, 0, 0, 1)
	certificate, key, err := cert.GenerateSelfSignedCertKey(loopback.String(), []net.IP{loopback}, []string{"localhost"})
	if err != nil {
		return nil, fmt.Errorf("creating the webhook's certificate: %w", err)
	}
	l, err := net.Listen("tcp", loopback.String()+":0")
	return &webhookServer{l, certificate, key}, err
}

func (s *webhookServer) url() string { return "https://" + s.Addr().String() + "/node" }

// install creates the objects of OVN-Kubernetes' manifests that Windows nodes need: a namespace, the permissions of nodes, and
// the webhook.
func install(ctx context.Context, clients kubernetes.Interface, server *webhookServer) error {
	meta := metav1.ObjectMeta{Name: "ovnkube-node"}
	role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{ // the permissions of ovnkube-node that a Windows node uses
		{APIGroups: []string{""}, Resources: []string{"namespaces", "nodes", "pods", "services", "endpoints"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"nodes/status", "pods/status", "namespaces/status"}, Verbs: []string{"patch", "update"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch", "update"}},
		{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create", "get", "list", "watch"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: Group}},
	}
	url, none, scope := server.url(), admissionv1.SideEffectClassNone, admissionv1.AllScopes
	webhook := &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "ovn-kubernetes-admission-webhook-node"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "ovn-kubernetes-admission-webhook-node.k8s.io", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none,
			ClientConfig: admissionv1.WebhookClientConfig{URL: &url, CABundle: server.cert},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"nodes/status"}, Scope: &scope},
			}},
		}},
	}
	o := metav1.CreateOptions{}
	_, err1 := clients.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}, o)
	_, err2 := clients.RbacV1().ClusterRoles().Create(ctx, role, o)
	_, err3 := clients.RbacV1().ClusterRoleBindings().Create(ctx, binding, o)
	_, err4 := clients.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, webhook, o)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return fmt.Errorf("installing OVN-Kubernetes: %w", err)
	}
	return nil
}
