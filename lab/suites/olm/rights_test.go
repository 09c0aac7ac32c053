//go:build linux

package olm_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/lab/cluster/rights"
)

// checkPeople compares the permissions of users with the table in deploy/README.md. OLM extends the roles of Kubernetes, so the
// table is only correct with the policies that the operator applies.
func (p *harness) checkPeople() {
	ctx := p.t.Context()
	readme, err := os.ReadFile(filepath.Join(root, "deploy", "README.md"))
	must(p.t, err)
	must(p.t, rights.Bind(ctx, p.config(), api.DefaultNamespace))
	editor := rights.Person{Role: "edit", Cluster: true}
	p.eventually("OLM permits role edit to write WindowsConfigs", func(ctx context.Context) string {
		permits, err := rights.Permits(ctx, p.config(), api.DefaultNamespace, editor, "windowsconfigs")
		if err != nil {
			return err.Error()
		}
		if !permits {
			return "role edit has no permission"
		}
		return ""
	})
	p.eventually("users have the permissions in deploy/README.md", func(ctx context.Context) string {
		return strings.Join(rights.Differences(ctx, p.config(), api.DefaultNamespace, string(readme)), "\n")
	})
}

// checkJoiningHost compares the permissions of the account of joining hosts with deploy/README.md, and tries those that OLM adds.
func (p *harness) checkJoiningHost() {
	ctx := p.t.Context()
	got, err := p.rulesOf("windows-node-bootstrapper")
	must(p.t, err)
	const requests = "certificates.k8s.io/certificatesigningrequests"
	condition := "operators.coreos.com/operatorconditions " + operator + ".v0.1.0"
	want := []string{
		"create " + requests, "get " + requests, "list " + requests, "watch " + requests,
		"get " + condition, "patch " + condition, "update " + condition, // granted by OLM, and denied by policy windows-node-bootstrapper
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		p.t.Errorf("got permissions of the account of joining hosts %q, want %q", got, want)
	}
	as, err := client.New(p.as("windows-node-bootstrapper"), client.Options{})
	must(p.t, err)
	target := &unstructured.Unstructured{}
	target.SetAPIVersion("operators.coreos.com/v2")
	target.SetKind("OperatorCondition")
	target.SetNamespace(api.DefaultNamespace)
	target.SetName(operator + ".v0.1.0")
	const stop = `{"spec": {"overrides": [{"type": "Upgradeable", "status": "False", "reason": "Stopped", "message": "by a host"}]}}`
	err = as.Patch(ctx, target, client.RawPatch(types.MergePatchType, []byte(stop)))
	if err == nil || !strings.Contains(err.Error(), "is the identity of a host that joins") {
		p.t.Errorf("blocking upgrades as a joining host: got error %v, want a rejection by the policy", err)
	}
}

// as returns a client configuration that impersonates a ServiceAccount in the operator's namespace.
func (p *harness) as(account string) *rest.Config {
	config := p.config()
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + api.DefaultNamespace + ":" + account,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + api.DefaultNamespace, "system:authenticated"},
	}
	return config
}

// rulesOf returns the permissions of a ServiceAccount, in the form of rights.Of, without those that every account has.
func (p *harness) rulesOf(account string) ([]string, error) {
	rules := func(account string) ([]string, error) {
		clients, err := kubernetes.NewForConfig(p.as(account))
		if err != nil {
			return nil, err
		}
		return rights.Of(p.t.Context(), clients, api.DefaultNamespace)
	}
	common, err := rules("default")
	if err != nil {
		return nil, err
	}
	own, err := rules(account)
	own = slices.DeleteFunc(own, func(rule string) bool { return slices.Contains(common, rule) })
	slices.Sort(own)
	return slices.Compact(own), err
}
