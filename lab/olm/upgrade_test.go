//go:build linux

package olm_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/manifest"
	"github.com/windows-machine-config/wmco/lab/olm"
)

// upgrade installs version 0.2.0, with another kubelet, while the rollout is paused, with the settings that the document shows for the
// Deployment. Nodes must not change before the pause ends, and then one after another.
func (p *place) upgrade() {
	ctx := p.t.Context()
	pause := func(paused bool) {
		if err := p.Change(ctx, func(s *v1alpha1.WindowsConfigSpec) { s.Rollout.Paused = paused }); err != nil {
			p.t.Fatal(err)
		}
	}
	pause(true)
	before := p.versions()
	dir, err := p.AnotherPayload("next", "kubelet.exe")
	if err == nil {
		err = p.Pod.Push(ctx, dir, "v0.2.0")
	}
	if err == nil {
		err = p.release(ctx, "0.2.0")
	}
	if err == nil {
		err = manifest.ApplyObjects(ctx, p.cluster.Config, append(p.catalogOf("0.2.0"), p.docs.under("Settings of the Deployment")...))
	}
	if err == nil {
		err = p.follow(ctx, "0.2.0")
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.expectUpgradeable(operator+".v0.2.0", metav1.ConditionTrue)
	p.eventually("nodes are to have another version", func(ctx context.Context) string {
		var config v1alpha1.WindowsConfig
		if err := p.Client.Get(ctx, types.NamespacedName{Name: api.WindowsConfigName}, &config); err != nil {
			return err.Error()
		}
		if r := config.Status.Rollout; r == nil || strings.Contains(fmt.Sprint(before), r.Version) || r.AtVersion != 0 {
			return fmt.Sprintf("the rollout is %+v", r)
		}
		return ""
	})
	pod, err := p.Pod.WaitUntilReady(ctx)
	if err != nil {
		p.t.Fatal(err)
	}
	if args, err := p.containerVariable("ARGS"); err != nil || args != "--debugLogging" || pod.Spec.NodeSelector["node-role.kubernetes.io/control-plane"] != "" {
		p.t.Errorf("ARGS is %q (%v), the node selector is %v", args, err, pod.Spec.NodeSelector)
	}
	if after := p.versions(); fmt.Sprint(after) != fmt.Sprint(before) {
		p.t.Errorf("nodes were changed during the pause: versions were %v and are %v", before, after)
	}
	pause(false)
	p.expectUpgradeable(operator+".v0.2.0", metav1.ConditionFalse)
	p.eventually("all nodes have the other version", func(context.Context) string {
		for name, version := range p.versions() {
			if version == before[name] {
				return fmt.Sprintf("%s still has %s", name, version)
			}
		}
		return ""
	})
	p.expectReady()
	p.expectUpgradeable(operator+".v0.2.0", metav1.ConditionTrue)
	p.expectNothingOfFormer()
}

// catalogOf is the document's CatalogSource with the catalog of another version.
func (p *place) catalogOf(version string) []*unstructured.Unstructured {
	objects := p.docs.under("Before you begin")
	spec := objects[0].Object["spec"].(map[string]any)
	spec["image"] = strings.ReplaceAll(spec["image"].(string), ":0.1.0", ":"+version)
	return objects
}

// versions are those that nodes report.
func (p *place) versions() map[string]string {
	p.t.Helper()
	all := map[string]string{}
	for _, h := range p.Hosts() {
		var node corev1.Node
		if err := p.Client.Get(p.t.Context(), types.NamespacedName{Name: h.Name}, &node); err != nil {
			p.t.Fatal(err)
		}
		all[h.Name] = node.Annotations[api.AnnotationVersion]
	}
	return all
}

func (p *place) containerVariable(name string) (string, error) {
	c, err := p.Pod.Container(p.t.Context())
	if err != nil {
		return "", err
	}
	return c.Environment(name)
}

// expectUpgradeable waits until the operator reports to OLM whether it may be replaced.
func (p *place) expectUpgradeable(version string, want metav1.ConditionStatus) {
	p.t.Helper()
	p.eventually(fmt.Sprintf("%s is upgradeable: %s", version, want), func(ctx context.Context) string {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion("operators.coreos.com/v2")
		o.SetKind("OperatorCondition")
		if err := p.Client.Get(ctx, ours(version), o); err != nil {
			return err.Error()
		}
		var is struct {
			Spec struct {
				Conditions []metav1.Condition `json:"conditions"`
			} `json:"spec"`
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &is); err != nil {
			return err.Error()
		}
		if c := meta.FindStatusCondition(is.Spec.Conditions, "Upgradeable"); c == nil || c.Status != want {
			return fmt.Sprintf("the condition is %+v", c)
		}
		return ""
	})
}

// expectNothingOfFormer looks for what OLM made for the first version.
func (p *place) expectNothingOfFormer() {
	p.t.Helper()
	for _, kind := range []string{"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"} {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("rbac.authorization.k8s.io/v1")
		list.SetKind(kind + "List")
		if err := p.Client.List(p.t.Context(), list, client.MatchingLabels{"olm.owner": operator + ".v0.1.0"}); err != nil || len(list.Items) != 0 {
			p.t.Errorf("there are %d of kind %s (%v)", len(list.Items), kind, err)
		}
	}
}

// TestTheDocumentIsValid applies each YAML of docs/install-olm.md as a trial, field by field, on an API server with OLM's kinds.
func TestTheDocumentIsValid(t *testing.T) {
	cp, err := lab.StartControlPlane(t.Context(), lab.ControlPlaneOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cp.Stop)
	if err := olm.InstallKinds(t.Context(), cp.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(cp.RESTConfig(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"openshift-marketplace", api.DefaultNamespace} {
		if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	kinds := map[string]int{}
	for heading, objects := range readExamples(t) {
		for _, o := range objects {
			kinds[o.GetKind()]++
			err := c.Create(t.Context(), o, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
			if err != nil && !apierrors.IsAlreadyExists(err) {
				t.Errorf("%s, under %q: %v", o.GetKind(), heading, err)
			}
		}
	}
	for _, kind := range []string{"CatalogSource", "Namespace", "OperatorGroup", "Subscription", "ClusterCatalog"} {
		if kinds[kind] == 0 {
			t.Errorf("docs/install-olm.md has no %s", kind)
		}
	}
}
