package generations

import (
	"cmp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/internal/observe/podrules"
)

// maxOwners limits how many owners of owners are followed: users can make owner references that form a cycle.
const maxOwners = 8

// Object is an object with a pod template.
type Object struct {
	Kind, Namespace, Name string
	UID                   types.UID
	// Controller manages the object; nil if nothing does.
	Controller *metav1.OwnerReference
	Template   corev1.PodSpec
	// Idle means that it creates no more pods: a finished Job, or a ReplicaSet that its controller has scaled to zero.
	Idle bool
}

// id identifies an object. An owner is in the namespace of what it owns; users can also name the UID of another namespace's object.
type id struct {
	namespace string
	uid       types.UID
}

// Objects returns the objects of a list. Lists of kinds without pod templates have none.
func Objects(list runtime.Object) (all []Object) {
	add := func(kind string, m *metav1.ObjectMeta, template *corev1.PodTemplateSpec, idle bool) {
		all = append(all, Object{
			Kind: kind, Namespace: m.Namespace, Name: m.Name, UID: m.UID, Controller: metav1.GetControllerOf(m), Template: template.Spec, Idle: idle,
		})
	}
	switch l := list.(type) {
	case *appsv1.DeploymentList:
		for i := range l.Items {
			add("Deployment", &l.Items[i].ObjectMeta, &l.Items[i].Spec.Template, false)
		}
	case *appsv1.StatefulSetList:
		for i := range l.Items {
			add("StatefulSet", &l.Items[i].ObjectMeta, &l.Items[i].Spec.Template, false)
		}
	case *appsv1.DaemonSetList:
		for i := range l.Items {
			add("DaemonSet", &l.Items[i].ObjectMeta, &l.Items[i].Spec.Template, false)
		}
	case *appsv1.ReplicaSetList:
		for i := range l.Items {
			o := &l.Items[i]
			add("ReplicaSet", &o.ObjectMeta, &o.Spec.Template, metav1.GetControllerOf(o) != nil && o.Spec.Replicas != nil && *o.Spec.Replicas == 0)
		}
	case *batchv1.JobList:
		for i := range l.Items {
			o := &l.Items[i]
			add("Job", &o.ObjectMeta, &o.Spec.Template, slices.ContainsFunc(o.Status.Conditions, func(c batchv1.JobCondition) bool {
				return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
			}))
		}
	case *batchv1.CronJobList:
		for i := range l.Items {
			add("CronJob", &l.Items[i].ObjectMeta, &l.Items[i].Spec.JobTemplate.Spec.Template, false)
		}
	}
	return all
}

// Workload is a top-level object with pods for Windows nodes, or a pod without a controller.
type Workload struct {
	Kind, Namespace, Name string
	// ManagedBy is the object of an unknown kind that manages it, as in "Rollout web".
	ManagedBy string
	// Template is the spec of its pods.
	Template corev1.PodSpec
	// Pods run or wait, newest first.
	Pods []*corev1.Pod
	// Access identifies the credentials with which its images are read. The caller may set it.
	Access string
}

// Images returns the images of a workload, each once. A pod's ephemeral containers are not among them: no other pod gets them.
func (w *Workload) Images() (all []string) {
	for _, c := range slices.Concat(w.Template.InitContainers, w.Template.Containers) {
		if c.Image != "" && !slices.Contains(all, c.Image) {
			all = append(all, c.Image)
		}
	}
	return all
}

// Relevant reports whether a pod matters: it is on a Windows node, or has no node yet and may be for Windows. Pods that have ended, and static pods,
// which belong to one host, do not matter.
func Relevant(pod *corev1.Pod, isWindows func(node string) bool) bool {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.Annotations[corev1.MirrorPodAnnotationKey] != "" {
		return false
	}
	return pod.Spec.NodeName == "" || isWindows(pod.Spec.NodeName)
}

// Workloads returns the workloads whose pods are on Windows nodes or are for Windows, by namespace, kind and name.
func Workloads(c Cluster) []*Workload {
	known := map[id]*Object{}
	for i := range c.Objects {
		known[id{c.Objects[i].Namespace, c.Objects[i].UID}] = &c.Objects[i]
	}
	found := map[id]*Workload{}
	for i := range c.Objects {
		o := rootOf(&c.Objects[i], known)
		if o == &c.Objects[i] && !o.Idle {
			found[id{o.Namespace, o.UID}] = workloadOf(o)
		}
	}
	pods := make([]*corev1.Pod, 0, len(c.Pods))
	for i := range c.Pods {
		pods = append(pods, &c.Pods[i])
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
	})
	for _, p := range pods {
		owner, w := ownerOf(p, known)
		if found[owner] == nil {
			found[owner] = w
		}
		found[owner].Pods = append(found[owner].Pods, p)
	}
	var all []*Workload
	for _, w := range found {
		onNode := slices.ContainsFunc(w.Pods, func(p *corev1.Pod) bool { return p.Spec.NodeName != "" })
		if onNode || isForWindows(w, c) {
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(a, b *Workload) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
	return all
}

// rootOf returns the topmost known object that manages an object: the object itself if it is part of a cycle.
func rootOf(o *Object, known map[id]*Object) *Object {
	first := o
	for range maxOwners {
		if o.Controller == nil {
			break
		}
		next := known[id{o.Namespace, o.Controller.UID}]
		if next == nil {
			break
		}
		if next == first {
			return first
		}
		o = next
	}
	return o
}

// ownerOf returns the workload of a pod without its pods, and what identifies it: its topmost known object, its unknown controller, or the pod.
func ownerOf(p *corev1.Pod, known map[id]*Object) (id, *Workload) {
	ref := metav1.GetControllerOf(p)
	if ref == nil {
		return id{p.Namespace, p.UID}, &Workload{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, Template: p.Spec}
	}
	if o := known[id{p.Namespace, ref.UID}]; o != nil {
		o = rootOf(o, known)
		return id{o.Namespace, o.UID}, workloadOf(o)
	}
	w := &Workload{Kind: ref.Kind, Namespace: p.Namespace, Name: ref.Name, Template: *p.Spec.DeepCopy()}
	w.Template.NodeName = "" // set by the scheduler
	return id{p.Namespace, ref.UID}, w
}

func workloadOf(o *Object) *Workload {
	w := &Workload{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, Template: o.Template}
	if o.Controller != nil {
		w.ManagedBy = o.Controller.Kind + " " + o.Controller.Name
	}
	return w
}

// isForWindows reports whether a template is for Windows, or the scheduling of its RuntimeClass.
func isForWindows(w *Workload, c Cluster) bool {
	d := demandsOf(w, c.Classes)
	spec := corev1.PodSpec{
		OS: w.Template.OS, NodeSelector: d.selector, RuntimeClassName: w.Template.RuntimeClassName, Affinity: w.Template.Affinity,
		Containers: w.Template.Containers, InitContainers: w.Template.InitContainers,
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&spec)
	return err == nil && podrules.ForWindows(object)
}
