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

// removal runs the commands of docs/install-olm.md that remove hosts and the operator, and expects that nothing is left.
func (p *harness) removal() {
	if err := p.runBlocks("## Removal", 3); err != nil { // for hosts, the operator and the remaining objects
		p.t.Fatal(err)
	}
	p.eventually("nothing is left in the cluster", func(ctx context.Context) string {
		remaining, err := p.remainingObjects(ctx)
		if err != nil {
			return err.Error()
		}
		return strings.Join(remaining, ", ")
	})
}

// runBlocks runs the commands of docs/install-olm.md under a heading. want is the expected number of blocks.
func (p *harness) runBlocks(heading string, want int) error {
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

// runBlock runs commands, after replacing some words.
func (p *harness) runBlock(block string, replace map[string]string) error {
	shell, err := p.NewShell(p.t.TempDir())
	if err != nil {
		return err
	}
	shell.Replace = replace
	return shell.Run(p.t.Context(), root, block)
}

// upgradeBlocks returns the commands of docs/install-olm.md that approve an InstallPlan, and that change the version of the catalog.
func (p *harness) upgradeBlocks() (approve, changeCatalog string) {
	p.t.Helper()
	blocks, err := consoleBlocks("## Upgrades", 2)
	must(p.t, err)
	return blocks[0], blocks[1]
}

// changeCatalog changes the catalog to that of a version, with the documented commands.
func (p *harness) changeCatalog(version string) error {
	_, commands := p.upgradeBlocks()
	return p.runBlock(commands, map[string]string{"0.2.0": version})
}

// reinstall installs the newest version of the catalog after the removal.
func (p *harness) reinstall() {
	must(p.t, p.subscribe(p.t.Context(), "0.5.0"))
	p.mustReach("0.5.0", "Succeeded")
}

// remainingObjects returns the cluster-scoped objects whose names contain windows, and Windows nodes.
func (p *harness) remainingObjects(ctx context.Context) (remaining []string, err error) {
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
			if strings.Contains(o.GetName(), "windows") || o.GetLabels()["kubernetes.io/os"] == "windows" {
				remaining = append(remaining, fmt.Sprintf("%s %s", kind.Kind, o.GetName()))
			}
		}
	}
	return remaining, nil
}
