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

// gate is a readiness gate: a rollout waits until a changed node has this condition.
const gate = "lab.test/Accepted"

// channelTag is the documented tag of the catalog's image. It moves with each release.
const channelTag = "stable"

// upgrade publishes version 0.2.0 with another kubelet, which OLM must find on its own, and whose InstallPlan needs approval.
// The rollout is paused, and the Deployment has the documented settings. Nodes must not change before the pause ends, and then
// one after another. Meanwhile, version 0.3.0 is published, whose installation must wait.
func (p *harness) upgrade() {
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
		p.t.Errorf("got versions of nodes %v after the pause, want the unchanged %v", after, before)
	}
	change(func(r *v1alpha1.RolloutSpec) { r.Paused = false })
	p.expectUpgradeable("0.2.0", metav1.ConditionFalse)
	p.expectUpgradeWaits()
	p.expectUpgraded(before)
	p.expectUpgradeable("0.3.0", metav1.ConditionTrue)
	p.mustReach("0.3.0", "Succeeded")
	change(func(r *v1alpha1.RolloutSpec) { r.ReadinessGates = nil })
	p.expectReady()
	p.expectNothingLeft("0.1.0")
	p.expectNothingLeft("0.2.0")
}

// expectUpgradeWaits publishes 0.3.0 while the operator waits for the readiness gate of a node.
func (p *harness) expectUpgradeWaits() {
	ctx := p.t.Context()
	must(p.t, p.release(ctx, "0.3.0", "0.2.0"))
	must(p.t, p.changeCatalog("0.3.0"))
	p.approve("0.3.0")
	p.eventually("version 0.3.0 waits until the operator is upgradeable", func(ctx context.Context) string {
		status, err := p.status(ctx, "0.3.0")
		if err != nil || status.Phase != "Pending" || status.Reason != "OperatorConditionNotUpgradeable" {
			return fmt.Sprintf("got status %+v (error %v)", status, err)
		}
		return ""
	})
}

// expectUpgraded opens the readiness gate of each upgraded node, until all nodes are upgraded.
func (p *harness) expectUpgraded(before map[string]string) {
	p.t.Helper()
	p.eventually("all nodes are upgraded", func(ctx context.Context) string {
		for name, version := range p.versions() {
			if version == before[name] {
				return fmt.Sprintf("node %s still has version %s", name, version)
			}
			if err := p.openGate(ctx, name); err != nil {
				return err.Error()
			}
		}
		return ""
	})
}

func (p *harness) openGate(ctx context.Context, node string) error {
	patch := fmt.Appendf(nil, `{"status": {"conditions": [{"type": %q, "status": "True", "reason": "Lab", "message": "", "lastTransitionTime": %q, "lastHeartbeatTime": %[2]q}]}}`,
		gate, time.Now().UTC().Format(time.RFC3339))
	_, err := p.Clients.CoreV1().Nodes().PatchStatus(ctx, node, patch)
	return err
}

// expectRollout waits until the new operator reports a rollout to another version.
func (p *harness) expectRollout(before map[string]string) {
	p.t.Helper()
	p.eventually("the operator reports a rollout to another version", func(ctx context.Context) string {
		var config v1alpha1.WindowsConfig
		if err := p.Client.Get(ctx, types.NamespacedName{Name: api.WindowsConfigName}, &config); err != nil {
			return err.Error()
		}
		if r := config.Status.Rollout; r == nil || strings.Contains(fmt.Sprint(before), r.Version) || r.AtVersion != 0 {
			return fmt.Sprintf("got rollout %+v", r)
		}
		return ""
	})
}

// checkDeployment compares the pod with the documented settings.
func (p *harness) checkDeployment() {
	p.t.Helper()
	pod, err := p.Pod.WaitUntilReady(p.t.Context())
	must(p.t, err)
	if args, err := p.containerVariable("ARGS"); err != nil || args != "--debugLogging" || pod.Spec.NodeSelector["node-role.kubernetes.io/control-plane"] != "" {
		p.t.Errorf("got ARGS %q (error %v) and node selector %v, want the documented ones", args, err, pod.Spec.NodeSelector)
	}
}

// approve approves the InstallPlan of a version with the documented commands. The documented Subscription requires approval.
func (p *harness) approve(version string) {
	p.t.Helper()
	p.eventually("the InstallPlan of version "+version+" can be approved", func(ctx context.Context) string {
		if _, err := p.installPlan(ctx, version); err != nil {
			return fmt.Sprintf("%v\n%s", err, p.diagnoseOLM(ctx))
		}
		return ""
	})
	approve, _ := p.upgradeBlocks()
	must(p.t, p.runBlock(approve, nil))
}

// installPlan returns the InstallPlan to which the Subscription refers. It returns an error unless the InstallPlan is for the
// version: OLM can have created others before, which it ignores.
func (p *harness) installPlan(ctx context.Context, version string) (*unstructured.Unstructured, error) {
	get := func(kind, name string) (*unstructured.Unstructured, error) {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion("operators.coreos.com/v1alpha1")
		o.SetKind(kind)
		return o, p.Client.Get(ctx, inOperatorNamespace(name), o)
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
		return nil, fmt.Errorf("reading InstallPlan %q of the Subscription: %w", name, err)
	}
	names, _, err := unstructured.NestedStringSlice(plan.Object, "spec", "clusterServiceVersionNames")
	if err != nil || !slices.Contains(names, operator+".v"+version) {
		return nil, fmt.Errorf("InstallPlan %s has versions %v (%w), want %s", name, names, err, version)
	}
	return plan, nil
}

func (p *harness) mustReach(version, phase string) {
	p.t.Helper()
	must(p.t, p.waitForPhase(p.t.Context(), version, phase))
}

// catalogWithTag returns the documented CatalogSource with another tag. OLM polls it every 30 seconds instead of every 30 minutes.
func (p *harness) catalogWithTag(tag string) []*unstructured.Unstructured {
	objects := p.docs.under("## Before you begin")
	spec := objects[0].Object["spec"].(map[string]any)
	image := spec["image"].(string)
	spec["image"] = image[:strings.LastIndex(image, ":")+1] + tag
	poll := spec["updateStrategy"].(map[string]any)["registryPoll"].(map[string]any)
	poll["interval"] = "30s"
	return objects
}

// versions returns the versions that nodes report.
func (p *harness) versions() map[string]string {
	p.t.Helper()
	all := map[string]string{}
	for _, h := range p.Hosts() {
		var node corev1.Node
		must(p.t, p.Client.Get(p.t.Context(), types.NamespacedName{Name: h.Name}, &node))
		all[h.Name] = node.Annotations[api.AnnotationVersion]
	}
	return all
}

func (p *harness) containerVariable(name string) (string, error) {
	c, err := p.Pod.Container(p.t.Context())
	if err != nil {
		return "", err
	}
	return c.Environment(name)
}

// expectUpgradeable waits until condition Upgradeable, which the operator reports to OLM, has a status.
func (p *harness) expectUpgradeable(version string, want metav1.ConditionStatus) {
	p.t.Helper()
	p.eventually(fmt.Sprintf("condition Upgradeable of version %s is %s", version, want), func(ctx context.Context) string {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion("operators.coreos.com/v2")
		o.SetKind("OperatorCondition")
		if err := p.Client.Get(ctx, inOperatorNamespace(operator+".v"+version), o); err != nil {
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
			return fmt.Sprintf("got condition %+v", c)
		}
		return ""
	})
}

// expectNothingLeft waits until the roles and bindings that OLM created for a version are deleted.
func (p *harness) expectNothingLeft(version string) {
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
