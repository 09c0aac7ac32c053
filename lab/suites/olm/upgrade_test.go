//go:build linux

package olm_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/lab/cluster/manifest"
)

// gate is a condition of Nodes without which none is in service again after a change.
const gate = "lab.test/Accepted"

// channelTag is the tag of the catalog's image that the document names. It moves with each release.
const channelTag = "stable"

// upgrade moves the catalog to version 0.2.0, with another kubelet, which OLM must find on its own, while the rollout is paused, with the documented
// settings for the Deployment, and an InstallPlan that needs approval. Nodes must not change before the pause ends, and then one after another. While
// they do, the catalog moves on to 0.3.0, which must wait.
func (p *place) upgrade() {
	ctx := p.t.Context()
	change := func(change func(*v1alpha1.RolloutSpec)) {
		must(p.t, p.Change(ctx, func(s *v1alpha1.WindowsConfigSpec) { change(&s.Rollout) }))
	}
	change(func(r *v1alpha1.RolloutSpec) { r.Paused, r.ReadinessGates = true, []string{gate} })
	before := p.versions()
	dir, err := p.AnotherPayload("next", "kubelet.exe")
	must(p.t, err)
	for _, version := range []string{"0.2.0", "0.3.0", "0.4.0", "0.5.0"} {
		must(p.t, p.Pod.Push(ctx, dir, "v"+version))
	}
	must(p.t, manifest.ApplyObjects(ctx, p.config(), p.docs.under("## Settings of the Deployment")))
	released := time.Now()
	must(p.t, p.release(ctx, "0.2.0", "0.1.0"))
	p.approve("0.2.0")
	p.t.Logf("OLM found the new version after %s", time.Since(released).Round(time.Second))
	began := time.Now()
	p.mustReach("0.2.0", "Succeeded")
	fmt.Printf("olm.upgrade_seconds %.1f s\n", time.Since(began).Seconds())
	p.expectUpgradeable("0.2.0", metav1.ConditionTrue)
	p.checkDeployment()
	p.expectRollout(before)
	if after := p.versions(); fmt.Sprint(after) != fmt.Sprint(before) {
		p.t.Errorf("nodes were changed during the pause: versions were %v and are %v", before, after)
	}
	change(func(r *v1alpha1.RolloutSpec) { r.Paused = false })
	p.expectUpgradeable("0.2.0", metav1.ConditionFalse)
	p.expectHeld()
	p.expectUpgraded(before)
	p.expectUpgradeable("0.3.0", metav1.ConditionTrue)
	p.mustReach("0.3.0", "Succeeded")
	change(func(r *v1alpha1.RolloutSpec) { r.ReadinessGates = nil })
	p.expectReady()
	p.expectNothingOf("0.1.0")
	p.expectNothingOf("0.2.0")
}

// expectHeld has the catalog move to 0.3.0 while the operator verifies a node, which it does until the gate opens.
func (p *place) expectHeld() {
	ctx := p.t.Context()
	must(p.t, p.release(ctx, "0.3.0", "0.2.0"))
	must(p.t, p.move("0.3.0"))
	p.approve("0.3.0")
	p.eventually("version 0.3.0 waits until the operator is upgradeable", func(ctx context.Context) string {
		status, err := p.status(ctx, "0.3.0")
		if err != nil || status.Phase != "Pending" || status.Reason != "OperatorConditionNotUpgradeable" {
			return fmt.Sprintf("%+v (%v)", status, err)
		}
		return ""
	})
}

// expectUpgraded opens the gate of each node that has another version, until all have.
func (p *place) expectUpgraded(before map[string]string) {
	p.t.Helper()
	p.eventually("all nodes have the other version", func(ctx context.Context) string {
		for name, version := range p.versions() {
			if version == before[name] {
				return fmt.Sprintf("%s still has %s", name, version)
			}
			if err := p.openGate(ctx, name); err != nil {
				return err.Error()
			}
		}
		return ""
	})
}

func (p *place) openGate(ctx context.Context, node string) error {
	patch := fmt.Appendf(nil, `{"status": {"conditions": [{"type": %q, "status": "True", "reason": "Lab", "message": "", "lastTransitionTime": %q, "lastHeartbeatTime": %[2]q}]}}`,
		gate, time.Now().UTC().Format(time.RFC3339))
	_, err := p.Clients.CoreV1().Nodes().PatchStatus(ctx, node, patch)
	return err
}

// expectRollout waits until the new operator wants another version on nodes.
func (p *place) expectRollout(before map[string]string) {
	p.t.Helper()
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
}

// checkDeployment compares the pod with the settings that the document shows.
func (p *place) checkDeployment() {
	p.t.Helper()
	pod, err := p.Pod.WaitUntilReady(p.t.Context())
	must(p.t, err)
	if args, err := p.containerVariable("ARGS"); err != nil || args != "--debugLogging" || pod.Spec.NodeSelector["node-role.kubernetes.io/control-plane"] != "" {
		p.t.Errorf("ARGS is %q (%v), the node selector is %v", args, err, pod.Spec.NodeSelector)
	}
}

// approve approves the InstallPlan of a version with the document's commands, as the Subscription of the document requires.
func (p *place) approve(version string) {
	p.t.Helper()
	p.eventually("the InstallPlan of version "+version+" can be approved", func(ctx context.Context) string {
		if _, err := p.installPlan(ctx, version); err != nil {
			return fmt.Sprintf("%v\n%s", err, p.olmSays(ctx))
		}
		return ""
	})
	approve, _ := p.upgradeBlocks()
	must(p.t, p.runBlock(approve, nil))
}

// installPlan is the one that the Subscription names, which must be of a version. OLM may have made others before it, which it does not act
// on.
func (p *place) installPlan(ctx context.Context, version string) (*unstructured.Unstructured, error) {
	get := func(kind, name string) (*unstructured.Unstructured, error) {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion("operators.coreos.com/v1alpha1")
		o.SetKind(kind)
		return o, p.Client.Get(ctx, ours(name), o)
	}
	subscription, err := get("Subscription", operator)
	if err != nil {
		return nil, err
	}
	name, _, err := unstructured.NestedString(subscription.Object, "status", "installPlanRef", "name")
	if err != nil {
		return nil, err
	}
	plan, err := get("InstallPlan", name)
	if err != nil {
		return nil, fmt.Errorf("the Subscription names InstallPlan %q: %w", name, err)
	}
	names, _, err := unstructured.NestedStringSlice(plan.Object, "spec", "clusterServiceVersionNames")
	if err != nil || !slices.Contains(names, operator+".v"+version) {
		return nil, fmt.Errorf("InstallPlan %s is of %v (%w), not of version %s", name, names, err, version)
	}
	return plan, nil
}

func (p *place) mustReach(version, phase string) {
	p.t.Helper()
	must(p.t, p.waitForPhase(p.t.Context(), version, phase))
}

// catalogOf is the document's CatalogSource with another tag. OLM looks every half minute in place of every half hour.
func (p *place) catalogOf(tag string) []*unstructured.Unstructured {
	objects := p.docs.under("## Before you begin")
	spec := objects[0].Object["spec"].(map[string]any)
	image := spec["image"].(string)
	spec["image"] = image[:strings.LastIndex(image, ":")+1] + tag
	poll := spec["updateStrategy"].(map[string]any)["registryPoll"].(map[string]any)
	poll["interval"] = "30s"
	return objects
}

// versions are those that nodes report.
func (p *place) versions() map[string]string {
	p.t.Helper()
	all := map[string]string{}
	for _, h := range p.Hosts() {
		var node corev1.Node
		must(p.t, p.Client.Get(p.t.Context(), types.NamespacedName{Name: h.Name}, &node))
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
		if err := p.Client.Get(ctx, ours(operator+".v"+version), o); err != nil {
			return err.Error()
		}
		var got struct {
			Spec struct {
				Conditions []metav1.Condition `json:"conditions"`
			} `json:"spec"`
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &got); err != nil {
			return err.Error()
		}
		if c := meta.FindStatusCondition(got.Spec.Conditions, "Upgradeable"); c == nil || c.Status != want {
			return fmt.Sprintf("the condition is %+v", c)
		}
		return ""
	})
}

// expectNothingOf looks for what OLM made for a version.
func (p *place) expectNothingOf(version string) {
	p.t.Helper()
	p.eventually("nothing is left of version "+version, func(ctx context.Context) string {
		var left []string
		for _, kind := range []string{"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"} {
			list := &unstructured.UnstructuredList{}
			list.SetAPIVersion("rbac.authorization.k8s.io/v1")
			list.SetKind(kind + "List")
			if err := p.Client.List(ctx, list, client.MatchingLabels{"olm.owner": operator + ".v" + version}); err != nil {
				return err.Error()
			}
			for _, o := range list.Items {
				left = append(left, kind+" "+o.GetName())
			}
		}
		return strings.Join(left, ", ")
	})
}
