//go:build linux

package e2e

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// missingAccount creates pods with a group Managed Service Account and removes one missing prerequisite after the other: the kind and the webhook of
// windows-gmsa, and a node that is joined to a domain.
func missingAccount(p pluginTest) {
	j := p.ready("alone")
	account := corev1.WindowsSecurityContextOptions{GMSACredentialSpecName: new("web")}
	p.expectPodReason(j.at.Name, account, api.EventCredentialSpecMissing, "names credential spec web", "kind GMSACredentialSpec does not exist")
	kind := credentialSpecs()
	p.create(kind)
	p.eventually("the API server serves kind GMSACredentialSpec", func(context.Context) string {
		if _, err := p.Client.RESTMapper().RESTMapping(schema.GroupKind{Group: "windows.k8s.io", Kind: "GMSACredentialSpec"}); err != nil {
			return err.Error()
		}
		return ""
	})
	p.expectPodReason(j.at.Name, account, api.EventCredentialSpecMissing, "the webhook of windows-gmsa is not installed")
	account.GMSACredentialSpec = new("{}")
	p.expectPodReason(j.at.Name, account, api.EventNodeNotInDomain, "node alone does not report that it is joined to a domain", "0 of 1 Windows nodes do")
	p.remove(kind)
	p.removeHost(j.name)
	j = p.addHost("member", func(h *sim.Host) { h.Windows().EditAccounts(func(a *sim.Accounts) { a.Domain = "CONTOSO" }) })
	p.expectReady(j.name)
	eventuallyOf(p.harness, "the node of a host in a domain has the label", types.NamespacedName{Name: "member"}, func(node *corev1.Node) string {
		if node.Labels[api.LabelGMSA] != "true" {
			return fmt.Sprintf("got labels %v and conditions %+v", node.Labels, node.Status.Conditions)
		}
		return ""
	})
	p.removeHost(j.name)
}

// expectPodReason creates a pod with an account on a node, and waits until the operator annotates the pod with the reason why it does not start.
func (p pluginTest) expectPodReason(node string, account corev1.WindowsSecurityContextOptions, reason string, parts ...string) {
	p.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: "gmsa-"}, Spec: corev1.PodSpec{
		OS: &corev1.PodOS{Name: corev1.Windows}, NodeName: node, TerminationGracePeriodSeconds: new(int64), Containers: []corev1.Container{{Name: "web", Image: "web"}},
		SecurityContext: &corev1.PodSecurityContext{WindowsOptions: &account},
	}}
	p.create(pod)
	p.eventually("a pod has reason "+reason, func(ctx context.Context) string {
		if err := p.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err.Error()
		}
		text := pod.Annotations[api.AnnotationDoesNotStart]
		if all := append(parts, reason+": "); !containsAll(text, all) {
			return fmt.Sprintf("annotation %q lacks one of %q", text, all)
		}
		return ""
	})
	p.remove(pod)
}

// credentialSpecs returns the CustomResourceDefinition of windows-gmsa.
func credentialSpecs() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{
			"name": "gmsacredentialspecs.windows.k8s.io", "annotations": map[string]any{"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/pull/1"},
		},
		"spec": map[string]any{
			"group": "windows.k8s.io", "scope": "Cluster", "names": map[string]any{"kind": "GMSACredentialSpec", "plural": "gmsacredentialspecs"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
}
