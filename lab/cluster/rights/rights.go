// Package rights queries an API server for the permissions of users on the operator's objects, and compares them with the table
// in deploy/README.md.
package rights

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// Of returns all permissions of the clients' user in a namespace and in the cluster, each in the form "verb group/resource names".
func Of(ctx context.Context, clients kubernetes.Interface, namespace string) (all []string, err error) {
	review, err := clients.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx,
		&authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	for _, rule := range review.Status.ResourceRules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all = append(all, strings.TrimSpace(verb+" "+group+"/"+resource+" "+strings.Join(rule.ResourceNames, ",")))
				}
			}
		}
	}
	return all, nil
}

// kinds returns the kinds that have a column in the table.
func kinds() []string { return []string{"windowsinstances", "windowsconfigs"} }

// A Person is a user with one of Kubernetes' roles, either only in the operator's namespace or in the whole cluster.
type Person struct {
	Role    string
	Cluster bool
}

// User returns the name of the user.
func (p Person) User() string {
	if p.Cluster {
		return p.Role + "-of-the-cluster"
	}
	return p.Role + "-of-the-namespace"
}

// A Right is the access of a person to a kind: "" for none, "read" or "write".
type Right string

// People returns the users that the table covers.
func People() []Person {
	var all []Person
	for _, role := range []string{"view", "edit", "admin"} {
		all = append(all, Person{role, false}, Person{role, true})
	}
	return append(all, Person{"cluster-admin", true})
}

// Want returns the rights of a person according to the table, by kind.
func Want(readme string, p Person) (map[string]Right, error) {
	_, section, _ := strings.Cut(readme, "\n### People\n")
	want := map[string]Right{}
	var last string // the value of column WindowsConfig to which "as above" refers
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 || strings.HasPrefix(cells[0], " ---") || strings.TrimSpace(cells[0]) == "role" {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if cells[2] != "as above" {
			last = cells[2]
		}
		roles, _, _ := strings.Cut(cells[0], " of ")
		if !slices.Contains(strings.Split(roles, ", "), p.Role) {
			continue
		}
		want["windowsinstances"], want["windowsconfigs"] = right(cells[1], p), right(last, p)
		return want, nil
	}
	return nil, fmt.Errorf("deploy/README.md has no row for role %s under People", p.Role)
}

func right(cell string, p Person) Right {
	word, _, _ := strings.Cut(cell, " ")
	if strings.Contains(cell, "when bound in the whole cluster") && !p.Cluster {
		word = ""
	}
	return Right(word)
}

// Bind creates the role binding of each person.
func Bind(ctx context.Context, config *rest.Config, namespace string) error {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	for _, p := range People() {
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: p.Role}
		subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: p.User()}}
		name := metav1.ObjectMeta{Name: "person-" + p.User()}
		if p.Cluster {
			_, err = clients.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: name, RoleRef: ref, Subjects: subjects}, metav1.CreateOptions{})
		} else {
			_, err = clients.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: name, RoleRef: ref, Subjects: subjects}, metav1.CreateOptions{})
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

// Got returns the right that the API server grants a person. It checks every verb, and tries to create an object, because an
// admission policy can reject requests that a role permits.
func Got(ctx context.Context, config *rest.Config, namespace string, p Person, kind string) (Right, error) {
	reads, err := permitted(ctx, config, namespace, p.User(), kind, "get", "list", "watch")
	if err != nil || reads == none {
		return "", err
	}
	writes, err := permitted(ctx, config, namespace, p.User(), kind, "create", "update", "patch", "delete")
	if err != nil {
		return "", err
	}
	if reads == some {
		return "", fmt.Errorf("%s has only some of the verbs for reading %s", p.User(), kind)
	}
	rejected, err := create(ctx, config, namespace, p.User(), kind)
	switch {
	case err != nil:
		return "", err
	case writes == every && rejected == nil:
		return "write", nil
	case rejected == nil:
		return "", fmt.Errorf("%s can create %s, but has only some of the verbs for writing", p.User(), kind)
	}
	return "read", nil
}

// A share is how many of the requested verbs a user has.
type share int

const (
	none share = iota
	some
	every
)

// Permits reports whether the roles of a person permit creating objects of a kind, regardless of admission.
func Permits(ctx context.Context, config *rest.Config, namespace string, p Person, kind string) (bool, error) {
	share, err := permitted(ctx, config, namespace, p.User(), kind, "create")
	return share == every, err
}

// permitted returns which share of the verbs the roles of a user permit.
func permitted(ctx context.Context, config *rest.Config, namespace, user, kind string, verbs ...string) (share, error) {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return none, err
	}
	allowed := 0
	for _, verb := range verbs {
		attributes := &authorizationv1.ResourceAttributes{Group: api.GroupName, Resource: kind, Verb: verb}
		if kind == "windowsinstances" {
			attributes.Namespace = namespace
		}
		review, err := clients.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: attributes},
		}, metav1.CreateOptions{})
		if err != nil {
			return none, err
		}
		if review.Status.Allowed {
			allowed++
		}
	}
	switch allowed {
	case 0:
		return none, nil
	case len(verbs):
		return every, nil
	}
	return some, nil
}

// create tries to create an object as a user, as a dry run. rejected is the error of the API server if it rejects the object.
func create(ctx context.Context, config *rest.Config, namespace, user, kind string) (rejected, err error) {
	as := rest.CopyConfig(config)
	as.Impersonate.UserName = user
	client, err := dynamic.NewForConfig(as)
	if err != nil {
		return nil, err
	}
	resource := schema.GroupVersion{Group: api.GroupName, Version: v1alpha1.GroupVersion().Version}.WithResource(kind)
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": v1alpha1.GroupVersion().String()}}
	var target dynamic.ResourceInterface = client.Resource(resource)
	if kind == "windowsinstances" {
		o.SetKind("WindowsInstance")
		o.SetName("of-" + user)
		o.Object["spec"] = map[string]any{"address": "10.0.0.77", "username": "Administrator"}
		target = client.Resource(resource).Namespace(namespace)
	} else {
		o.SetKind("WindowsConfig")
		o.SetName(api.WindowsConfigName)
		o.Object["spec"] = map[string]any{}
	}
	_, failure := target.Create(ctx, o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case failure == nil, apierrors.IsAlreadyExists(failure):
		return nil, nil
	case apierrors.IsForbidden(failure), apierrors.IsInvalid(failure):
		return failure, nil
	}
	return nil, failure
}

// Differences returns the differences between the rights that an API server grants and the table.
func Differences(ctx context.Context, config *rest.Config, namespace, readme string) (differences []string) {
	for _, p := range People() {
		want, err := Want(readme, p)
		if err != nil {
			return append(differences, err.Error())
		}
		for _, kind := range kinds() {
			if got, err := Got(ctx, config, namespace, p, kind); err != nil || got != want[kind] {
				differences = append(differences,
					fmt.Sprintf("%s has right %q for %s (error %v); deploy/README.md documents %q", p.User(), got, kind, err, want[kind]))
			}
		}
	}
	return differences
}
