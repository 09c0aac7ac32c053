//go:build linux

package olm_test

import (
	"context"
	"errors"
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
	if err := p.runBlocks("## Removal", 3); err != nil { // for hosts, operator and what is left
		p.t.Fatal(err)
	}
	p.eventually("nothing is left in the cluster", func(ctx context.Context) string {
		left, err := p.left(ctx)
		if err != nil {
			return err.Error()
		}
		return strings.Join(left, ", ")
	})
}

// runBlocks runs the commands of docs/install-olm.md below a heading, which are in this many blocks.
func (p *place) runBlocks(heading string, want int) error {
	blocks, err := consoleBlocks(heading, want)
	for _, block := range blocks {
		err = errors.Join(err, p.runBlock(block, nil))
	}
	return err
}

func consoleBlocks(heading string, want int) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "install-olm.md"))
	if err != nil {
		return nil, err
	}
	blocks := testenv.ConsoleBlocks(string(text), heading)
	if len(blocks) != want {
		return nil, fmt.Errorf("docs/install-olm.md has %d blocks of commands under %q, want %d", len(blocks), heading, want)
	}
	return blocks, nil
}

// runBlock runs commands, with other words in the place of some.
func (p *place) runBlock(block string, replace map[string]string) error {
	shell, err := p.NewShell(p.t.TempDir())
	if err != nil {
		return err
	}
	shell.Replace = replace
	return shell.Run(p.t.Context(), root, block)
}

// upgradeBlocks are the commands of docs/install-olm.md that approve an InstallPlan, and that name the catalog of another version.
func (p *place) upgradeBlocks() (approve, move string) {
	p.t.Helper()
	blocks, err := consoleBlocks("## Upgrades", 2)
	must(p.t, err)
	return blocks[0], blocks[1]
}

// move changes the catalog to that of another version, as documented.
func (p *place) move(version string) error {
	_, move := p.upgradeBlocks()
	return p.runBlock(move, map[string]string{"0.2.0": version})
}

// again installs the version that the catalog has by now, after the removal.
func (p *place) again() {
	must(p.t, p.subscribe(p.t.Context(), "0.5.0"))
	p.mustReach("0.5.0", "Succeeded")
}

// left returns the cluster-scoped objects whose names show that they are the operator's, and Windows nodes.
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
