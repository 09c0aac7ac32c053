//go:build linux

package olm_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// faultyVersion changes the catalog to a version whose CRDs do not accept the existing WindowsConfig. OLM must not install it,
// the operator must keep running, and the documented steps must install the next version.
func (p *harness) faultyVersion() {
	ctx := p.t.Context()
	deploy := filepath.Join(p.out, "faulty")
	must(p.t, os.CopyFS(deploy, os.DirFS(filepath.Join(root, "deploy"))))
	must(p.t, requireField(filepath.Join(deploy, "crds", "windowsmachineconfig.openshift.io_windowsconfigs.yaml")))
	must(p.t, p.release(ctx, "0.4.0", "0.3.0", "--deploy", deploy))
	must(p.t, p.changeCatalog("0.4.0"))
	p.approve("0.4.0")
	p.eventually("OLM rejects version 0.4.0", func(ctx context.Context) string {
		plan, err := p.installPlan(ctx, "0.4.0")
		if err != nil {
			return err.Error()
		}
		if status := fmt.Sprint(plan.Object["status"]); !strings.Contains(status, "phase:Failed") || !strings.Contains(status, "accepted") {
			return status
		}
		return ""
	})
	if _, err := p.Pod.Running(ctx); err != nil {
		p.t.Error(err)
	}
	must(p.t, p.release(ctx, "0.5.0", "0.3.0", "--withdraw", "0.4.0"))
	must(p.t, p.changeCatalog("0.5.0"))
	must(p.t, p.runBlocks("## When an InstallPlan fails", 1))
	p.expectCatalog("0.5.0") // otherwise OLM could install 0.4.0 again
	must(p.t, p.subscribe(ctx, "0.5.0"))
	p.mustReach("0.5.0", "Succeeded")
	p.expectReady()
}

// requireField adds a required field, which no existing object has, to a CustomResourceDefinition.
func requireField(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	kind := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &kind.Object); err != nil {
		return err
	}
	versions, _, err := unstructured.NestedSlice(kind.Object, "spec", "versions")
	if err != nil || len(versions) != 1 {
		return fmt.Errorf("%s has %d versions (%w), want one", file, len(versions), err)
	}
	spec := []string{"schema", "openAPIV3Schema", "properties", "spec"}
	version := versions[0].(map[string]any)
	if err := unstructured.SetNestedStringSlice(version, []string{"accepted"}, append(spec, "required")...); err != nil {
		return err
	}
	if err := unstructured.SetNestedStringMap(version, map[string]string{"type": "string"}, append(spec, "properties", "accepted")...); err != nil {
		return err
	}
	if err := unstructured.SetNestedSlice(kind.Object, versions, "spec", "versions"); err != nil {
		return err
	}
	if text, err = yaml.Marshal(kind.Object); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}
