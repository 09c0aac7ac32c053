package fleetstatus

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/observe/advice"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

// Operator is the program in the cluster.
type Operator struct {
	// Found means that its Deployment was read.
	Found bool `json:"found"`
	// Image is its container image; Version is the version label or the image tag.
	Image   string `json:"image,omitempty"`
	Version string `json:"version,omitempty"`
	// Ready means that one of its pods is Ready.
	Ready bool `json:"ready"`
	// Message is why it is not Ready.
	Message string `json:"message,omitempty"`
}

// DeploymentName is the name of the operator's Deployment, whichever way it is installed.
const DeploymentName = "windows-machine-config-operator"

// versionLabel is the label for a program's version that Helm and OLM set.
const versionLabel = "app.kubernetes.io/version"

func (r *reader) operator(f *Fleet) []Problem {
	d := r.Operator
	object := "Deployment " + DeploymentName
	if d == nil {
		if slices.ContainsFunc(r.Unread, func(u Unread) bool { return u.What == "deployments" }) {
			return nil
		}
		f.Operator.Message = fmt.Sprintf("Deployment %s not found in namespace %s", DeploymentName, r.Namespace)
		return []Problem{r.problem(advice.OperatorNotFound, object, f.Operator.Message, time.Time{})}
	}
	o := Operator{Found: true, Ready: d.Status.ReadyReplicas > 0, Version: label(d.Labels[versionLabel])}
	for _, c := range d.Spec.Template.Spec.Containers {
		if c.Name == "manager" || o.Image == "" {
			o.Image = label(c.Image)
		}
	}
	if o.Version == "" {
		o.Version = tagOf(o.Image)
	}
	f.Operator = o
	if o.Ready {
		return nil
	}
	since := d.CreationTimestamp.Time
	f.Operator.Message = "no pod is Ready"
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentAvailable && c.Status != corev1.ConditionTrue {
			f.Operator.Message, since = text(c.Message), c.LastTransitionTime.Time
		}
	}
	return []Problem{r.problem(advice.OperatorNotReady, object, f.Operator.Message, since)}
}

// tagOf returns the tag of an image; empty if it has only a digest.
func tagOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
		return image[i+1:]
	}
	return ""
}

func (r *reader) config(f *Fleet) (found []Problem) {
	if r.Config == nil {
		return nil
	}
	status := r.Config.Status
	f.Settings = Settings{Published: label(status.Settings), Nodes: int(status.Nodes), Updated: int(status.UpdatedNodes)}
	f.Policies = r.policies()
	bad := []string{api.ConditionDegraded, api.ConditionAnotherOperator, api.ConditionLimitsMissing, api.ConditionKubernetesUnsupported, api.ConditionContainerdUnsupported}
	for _, c := range status.Conditions {
		if c.Status == "Unknown" || isGood(c.Type, string(c.Status), bad) {
			continue
		}
		if p := r.problem(c.Reason, "WindowsConfig "+r.Config.Name, c.Message, c.LastTransitionTime.Time); p.Severity != advice.OK {
			found = append(found, p)
		}
	}
	return found
}

// policies counts the nodes that report policies that they cannot apply. The field has no effect with a network of the user's own.
func (r *reader) policies() *Policies {
	network := r.Config.Spec.Network
	network.Provider = desired.Provider(network, true) // without a provider, only OpenShift has nodes
	policies := desired.PoliciesOf(network)
	if policies == nil {
		return nil
	}
	p := &Policies{Mode: v1alpha1.NetworkPolicies(policies.Mode)}
	for i := range r.Nodes {
		if c := nodestate.Condition(&r.Nodes[i], api.ConditionNetworkPoliciesNotApplied); c != nil && c.Status == corev1.ConditionTrue {
			p.NotApplied++
		}
	}
	return p
}
