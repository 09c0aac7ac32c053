//go:build linux

package olm_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/lab/rights"
)

// checkPeople compares what people can do with the table of deploy/README.md. OLM adds to the roles of Kubernetes, and only the policies that
// the operator applies keep the table true.
func (p *place) checkPeople() {
	ctx := p.t.Context()
	readme, err := os.ReadFile(filepath.Join(root, "deploy", "README.md"))
	if err != nil {
		p.t.Fatal(err)
	}
	if err := rights.Bind(ctx, p.config(), api.DefaultNamespace); err != nil {
		p.t.Fatal(err)
	}
	editor := rights.Person{Role: "edit", Cluster: true}
	p.eventually("OLM lets role edit write WindowsConfigs", func(ctx context.Context) string {
		permits, err := rights.Permits(ctx, p.config(), api.DefaultNamespace, editor, "windowsconfigs")
		if err != nil {
			return err.Error()
		}
		if !permits {
			return "it does not"
		}
		return ""
	})
	p.eventually("people can do what deploy/README.md says", func(ctx context.Context) string {
		return strings.Join(rights.Differences(ctx, p.config(), api.DefaultNamespace, string(readme)), "\n")
	})
}

// checkJoiningHost compares what the account of joining hosts may do with deploy/README.md, and tries what OLM adds to it.
func (p *place) checkJoiningHost() {
	ctx := p.t.Context()
	got, err := p.rulesOf("windows-node-bootstrapper")
	if err != nil {
		p.t.Fatal(err)
	}
	want := []string{
		"create certificatesigningrequests", "get certificatesigningrequests", "list certificatesigningrequests", "watch certificatesigningrequests",
		// OLM's own, which policy windows-node-bootstrapper takes away.
		"get operatorconditions " + operator + ".v0.1.0", "patch operatorconditions " + operator + ".v0.1.0", "update operatorconditions " + operator + ".v0.1.0",
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		p.t.Errorf("the account of joining hosts may %q, want %q", got, want)
	}
	as, err := client.New(p.as("windows-node-bootstrapper"), client.Options{})
	if err != nil {
		p.t.Fatal(err)
	}
	condition := &unstructured.Unstructured{}
	condition.SetAPIVersion("operators.coreos.com/v2")
	condition.SetKind("OperatorCondition")
	condition.SetNamespace(api.DefaultNamespace)
	condition.SetName(operator + ".v0.1.0")
	const stop = `{"spec": {"overrides": [{"type": "Upgradeable", "status": "False", "reason": "Stopped", "message": "by a host"}]}}`
	err = as.Patch(ctx, condition, client.RawPatch(types.MergePatchType, []byte(stop)))
	if err == nil || !strings.Contains(err.Error(), "is the identity of a host that joins") {
		p.t.Errorf("a joining host stops upgrades: the error is %v", err)
	}
}

// as is the configuration of a client with the identity of an account of the operator's namespace.
func (p *place) as(account string) *rest.Config {
	config := p.config()
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + api.DefaultNamespace + ":" + account,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + api.DefaultNamespace, "system:authenticated"},
	}
	return config
}

// rulesOf are what an account may do, each as verb, resource and name, without what every account may do.
func (p *place) rulesOf(account string) ([]string, error) {
	rules := func(account string) (all []string, err error) {
		clients, err := kubernetes.NewForConfig(p.as(account))
		if err != nil {
			return nil, err
		}
		review, err := clients.AuthorizationV1().SelfSubjectRulesReviews().Create(p.t.Context(), &authorizationv1.SelfSubjectRulesReview{
			Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: api.DefaultNamespace},
		}, metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		for _, rule := range review.Status.ResourceRules {
			for _, verb := range rule.Verbs {
				for _, resource := range rule.Resources {
					all = append(all, strings.TrimSpace(verb+" "+resource+" "+strings.Join(rule.ResourceNames, ",")))
				}
			}
		}
		return all, nil
	}
	everybody, err := rules("default")
	if err != nil {
		return nil, err
	}
	own, err := rules(account)
	own = slices.DeleteFunc(own, func(rule string) bool { return slices.Contains(everybody, rule) })
	slices.Sort(own)
	return slices.Compact(own), err
}
