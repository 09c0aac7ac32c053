package lease

import (
	"context"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// account is the name of the operator's ServiceAccount in every namespace.
const account = "windows-machine-config-operator"

// Cluster finds the operators of a cluster.
type Cluster struct {
	Clients kubernetes.Interface
}

// Leases implements Operators.
func (c Cluster) Leases(ctx context.Context) ([]coordinationv1.Lease, error) {
	list, err := c.Clients.CoordinationV1().Leases(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + Name})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// IsInstalled implements Operators. It checks the strongest permission, which only operators have.
func (c Cluster) IsInstalled(ctx context.Context, namespace string) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:   "system:serviceaccount:" + namespace + ":" + account,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "update", Group: "certificates.k8s.io", Resource: "certificatesigningrequests", Subresource: "approval",
		},
	}}
	answer, err := c.Clients.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}
