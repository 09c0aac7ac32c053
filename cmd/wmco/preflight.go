package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/kubeversions"
	"github.com/windows-machine-config/wmco/internal/operator/lease"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// Failed checks are retried for a while before anything starts: manifests that were just applied need a moment to take effect.
const (
	preflightInterval = time.Second
	preflightTimeout  = 10 * time.Second
)

// preflight returns, in one line, why the operator cannot run in this cluster. Without it, caches that never sync would end the process after
// minutes without naming the missing permission.
func preflight(ctx context.Context, config *rest.Config, namespace string) error {
	config = rest.CopyConfig(config)
	config.Timeout = preflightTimeout
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("finding the cluster: %w", err)
	}
	return checkRepeatedly(ctx, clients, namespace)
}

func checkRepeatedly(ctx context.Context, clients kubernetes.Interface, namespace string) error {
	var failed error
	_ = wait.PollUntilContextTimeout(ctx, preflightInterval, preflightTimeout, true, func(context.Context) (bool, error) {
		failed = check(ctx, clients, namespace)
		return failed == nil, nil
	})
	return failed
}

// check runs the checks once. Requests that the API server does not answer are ignored: caches and controllers retry theirs.
func check(ctx context.Context, clients kubernetes.Interface, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, preflightTimeout)
	defer cancel()
	current, err := clients.Discovery().ServerVersion()
	if err != nil {
		return nil
	}
	server, err := kubeversions.Server(current.GitVersion, current.EmulationMajor, current.EmulationMinor)
	if err == nil && utilversion.MustParseGeneric(server).LessThan(utilversion.MustParseGeneric(kubeversions.MinKubernetes)) {
		return fmt.Errorf("the API server is Kubernetes %s; this operator needs %s or later: upgrade the cluster", server, kubeversions.MinKubernetes)
	}
	if err := checkKinds(clients); err != nil {
		return err
	}
	var missing []string
	for _, p := range permissions(namespace) {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &p}}
		answer, err := clients.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err == nil && !answer.Status.Allowed {
			missing = append(missing, describe(p))
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("missing permissions: %s; apply deploy/rbac-operator.yaml of this version, for the operator in namespace %s",
			strings.Join(missing, ", "), namespace)
	}
	return nil
}

// checkKinds returns an error that names the operator's kinds that the API server lacks.
func checkKinds(clients kubernetes.Interface) error {
	served, err := clients.Discovery().ServerResourcesForGroupVersion(v1alpha1.GroupVersion().String())
	if err != nil && !apierrors.IsNotFound(err) {
		return nil
	}
	kinds := map[string]bool{}
	if err == nil {
		for _, r := range served.APIResources {
			kinds[r.Name] = true
		}
	}
	for _, resource := range []string{"windowsinstances", "windowsconfigs"} {
		if !kinds[resource] {
			return fmt.Errorf("the API server does not serve %s of %s; apply deploy/crds of this version", resource, v1alpha1.GroupVersion())
		}
	}
	return nil
}

// permissions returns the minimum for any work: the lists of the caches, and the Lease. deploy/rbac-operator.yaml grants all permissions.
func permissions(namespace string) []authorizationv1.ResourceAttributes {
	group := v1alpha1.GroupVersion().Group
	return []authorizationv1.ResourceAttributes{
		{Verb: "list", Group: group, Resource: "windowsconfigs"},
		{Verb: "list", Group: group, Resource: "windowsinstances", Namespace: namespace},
		{Verb: "patch", Group: group, Resource: "windowsinstances", Subresource: "status", Namespace: namespace},
		{Verb: "list", Resource: "nodes"},
		{Verb: "list", Group: "certificates.k8s.io", Resource: "certificatesigningrequests"},
		{Verb: "update", Group: "certificates.k8s.io", Resource: "certificatesigningrequests", Subresource: "approval"},
		{Verb: "list", Resource: "configmaps", Namespace: namespace},
		{Verb: "list", Resource: "secrets", Name: api.PrivateKeySecret, Namespace: namespace},
		{Verb: "list", Group: "rbac.authorization.k8s.io", Resource: "roles", Name: api.WICDRole, Namespace: namespace},
		{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Name: lease.Name, Namespace: namespace},
		{Verb: "list", Group: "coordination.k8s.io", Resource: "leases", Name: lease.Name},
		{Verb: "create", Group: "authorization.k8s.io", Resource: "subjectaccessreviews"},
	}
}

// describe formats a permission as kubectl auth can-i takes it.
func describe(p authorizationv1.ResourceAttributes) string {
	resource := p.Resource
	if p.Group != "" {
		resource += "." + p.Group
	}
	if p.Subresource != "" {
		resource += "/" + p.Subresource
	}
	if p.Name != "" {
		resource += " " + p.Name
	}
	return p.Verb + " " + resource
}

// maxTermination is how many bytes of a termination message the kubelet reads (k8s.io/kubernetes/pkg/kubelet/container,
// MaxContainerTerminationMessageLength).
const maxTermination = 4096

// terminationLog is where the kubelet reads a container's termination message (the default of terminationMessagePath). It exists in pods only.
const terminationLog = "/dev/termination-log"

// writeTerminationMessage writes the reason as one line into the file, if it exists. Failures are ignored: the log has the reason, too.
func writeTerminationMessage(path string, reason error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return
	}
	_, err = io.WriteString(f, oneLine(reason))
	_ = errors.Join(err, f.Close())
}

func oneLine(reason error) string {
	return truncate.Text(strings.Join(strings.Fields(reason.Error()), " "), maxTermination)
}
