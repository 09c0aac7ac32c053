package generations

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// rehearsalSuffix ends the name of a rehearsal.
const rehearsalSuffix = "-rehearsal"

// Rehearsal is a copy of a Deployment with one pod, for one host.
type Rehearsal struct {
	Deployment *appsv1.Deployment
	// Notes say in which respects the copy is not what it was copied from, and what to consider before it runs.
	Notes []string
}

// Rehearse returns a copy of a Deployment that runs on one host only, to see whether its pods work there. No Service, PodDisruptionBudget or
// NetworkPolicy selects the copy by the labels of the original. Volumes of PersistentVolumeClaims, which the copy would share, are an error unless
// emptyVolumes replaces them by empty ones. classes are the RuntimeClasses by name.
func Rehearse(d *appsv1.Deployment, host *corev1.Node, classes map[string]*nodev1.RuntimeClass, emptyVolumes bool) (Rehearsal, error) {
	r := Rehearsal{Notes: []string{
		"It does what the original does: it reads the same queues, and writes to the same databases.",
		"NetworkPolicies that select pods by labels, and sidecars that are injected by labels, do not apply to it.",
	}}
	pod := *d.Spec.Template.Spec.DeepCopy()
	class, err := classFor(pod.RuntimeClassName, host, classes)
	if err != nil {
		return Rehearsal{}, fmt.Errorf("deployment %s/%s: %w", d.Namespace, d.Name, err)
	}
	if class != nil && *class != *pod.RuntimeClassName {
		r.Notes = append(r.Notes, fmt.Sprintf("RuntimeClass %s is replaced by %s.", *pod.RuntimeClassName, *class))
	}
	pod.RuntimeClassName = class
	if err := r.replaceVolumes(d, &pod, emptyVolumes); err != nil {
		return Rehearsal{}, err
	}
	pod.NodeName, pod.SchedulerName, pod.PriorityClassName, pod.Priority, pod.PreemptionPolicy = "", "", "", nil, nil
	pod.Affinity, pod.TopologySpreadConstraints = nil, nil
	pod.NodeSelector = map[string]string{corev1.LabelOSStable: string(corev1.Windows), corev1.LabelHostname: hostnameOf(host)}
	for _, t := range host.Spec.Taints {
		if !strings.HasPrefix(t.Key, "node.kubernetes.io/") {
			pod.Tolerations = append(pod.Tolerations, corev1.Toleration{Key: t.Key, Operator: corev1.TolerationOpEqual, Value: t.Value, Effect: t.Effect})
		}
	}
	one, history := int32(1), int32(0)
	labels := map[string]string{api.LabelRehearsal: fit(d.Name, validation.LabelValueMaxLength)}
	r.Deployment = &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: fit(d.Name, validation.DNS1123LabelMaxLength-len(rehearsalSuffix)) + rehearsalSuffix, Labels: labels,
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels}, Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			RevisionHistoryLimit: &history,
			Template:             corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: d.Spec.Template.Annotations}, Spec: pod},
		},
	}
	return r, nil
}

// fit cuts a name to a length. It still ends with a letter or digit.
func fit(name string, length int) string {
	return strings.TrimRight(name[:min(len(name), length)], "-.")
}

func hostnameOf(n *corev1.Node) string {
	if name := n.Labels[corev1.LabelHostname]; name != "" {
		return name
	}
	return n.Name
}

// classFor returns the RuntimeClass of a pod on a host: its own if that selects the host, otherwise the usual one of the host's build, with the same
// isolation.
func classFor(name *string, host *corev1.Node, classes map[string]*nodev1.RuntimeClass) (*string, error) {
	if name == nil {
		return nil, nil
	}
	class := classes[*name]
	if class != nil && (class.Scheduling == nil || matcher(class.Scheduling.NodeSelector, nil)(host)) {
		return name, nil
	}
	release, known := windowsbuild.ReleaseOf(nodestate.WindowsBuild(host))
	if !known || releaseOfClass(*name) == 0 {
		return nil, fmt.Errorf("RuntimeClass %.64q does not select node %s, and no other one is known to be like it: "+
			"change its scheduling.nodeSelector, or remove spec.template.spec.runtimeClassName from a copy of the Deployment", *name, host.Name)
	}
	other := release.Class
	if strings.HasSuffix(*name, "-hyperv") {
		other = release.HyperVClass()
	}
	if classes[other] == nil {
		return nil, fmt.Errorf("RuntimeClass %s does not select node %s, and RuntimeClass %s does not exist", *name, host.Name, other)
	}
	return &other, nil
}

func (r *Rehearsal) replaceVolumes(d *appsv1.Deployment, pod *corev1.PodSpec, emptyVolumes bool) error {
	for i, v := range pod.Volumes {
		switch {
		case v.HostPath != nil:
			r.Notes = append(r.Notes, fmt.Sprintf("Volume %s is a folder of the host: the copy may write to it.", v.Name))
		case v.PersistentVolumeClaim == nil:
		case !emptyVolumes:
			return fmt.Errorf("deployment %s/%s has volume %s of PersistentVolumeClaim %s, which the copy would share: use --empty-volumes to give it an empty volume instead",
				d.Namespace, d.Name, v.Name, v.PersistentVolumeClaim.ClaimName)
		default:
			r.Notes = append(r.Notes, fmt.Sprintf("Volume %s is empty instead of PersistentVolumeClaim %s.", v.Name, v.PersistentVolumeClaim.ClaimName))
			pod.Volumes[i].VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
		}
	}
	return nil
}
