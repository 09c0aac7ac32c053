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

// checkPeople compares what people can do with the table of deploy/README.md. OLM adds to the roles of Kubernetes, and only the policies that
// the operator applies keep the table true.
func (p *place) checkPeople() {
	ctx := p.t.Context()
	readme, err := os.ReadFile(filepath.Join(root, "deploy", "README.md"))
	must(p.t, err)
	must(p.t, rights.Bind(ctx, p.config(), api.DefaultNamespace))
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
	must(p.t, err)
	const requests = "certificates.k8s.io/certificatesigningrequests"
	condition := "operators.coreos.com/operatorconditions " + operator + ".v0.1.0"
	want := []string{
		"create " + requests, "get " + requests, "list " + requests, "watch " + requests,
		"get " + condition, "patch " + condition, "update " + condition, // OLM's own, which policy windows-node-bootstrapper takes away
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		p.t.Errorf("the account of joining hosts may %q, want %q", got, want)
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

// rulesOf returns the permissions of an account, in the form of rights.Of, without those of every account.
func (p *place) rulesOf(account string) ([]string, error) {
	rules := func(account string) ([]string, error) {
		clients, err := kubernetes.NewForConfig(p.as(account))
		if err != nil {
			return nil, err
		}
		return rights.Of(p.t.Context(), clients, api.DefaultNamespace)
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
