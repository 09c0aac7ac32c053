//go:build linux

package olm_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/windows-machine-config/wmco/lab/testenv"
)

// removal runs the commands of docs/install-olm.md that remove hosts and operator, and looks for what is left.
func (p *place) removal() {
	ctx := p.t.Context()
	text, err := os.ReadFile(filepath.Join(root, "docs", "install-olm.md"))
	if err != nil {
		p.t.Fatal(err)
	}
	blocks := testenv.ConsoleBlocks(string(text), "## Removal")
	if len(blocks) != 3 {
		p.t.Fatalf("docs/install-olm.md has %d blocks of commands for the removal, want those for hosts, operator and what is left", len(blocks))
	}
	shell, err := p.NewShell(p.t.TempDir())
	if err != nil {
		p.t.Fatal(err)
	}
	for _, block := range blocks {
		if err := shell.Run(ctx, root, block); err != nil {
			p.t.Fatal(err)
		}
	}
	p.eventually("nothing is left in the cluster", func(ctx context.Context) string {
		left, err := p.left(ctx)
		if err != nil {
			return err.Error()
		}
		return strings.Join(left, ", ")
	})
}

// left are the objects outside of namespaces whose name tells that they are the operator's, and Windows nodes.
func (p *place) left(ctx context.Context) (left []string, err error) {
	for _, kind := range []schema.GroupVersionKind{
		{Version: "v1", Kind: "Node"},
		{Version: "v1", Kind: "Namespace"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicy"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicyBinding"},
		{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := p.Client.List(ctx, list); err != nil {
			return nil, err
		}
		for _, o := range list.Items {
			ours := strings.Contains(o.GetName(), "windows") || o.GetLabels()["kubernetes.io/os"] == "windows"
			if ours {
				left = append(left, fmt.Sprintf("%s %s", kind.Kind, o.GetName()))
			}
		}
	}
	return left, nil
}
