package explain

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/observe/podcause"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/shared/mask"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

const (
	podsPage      = 100
	sweepTimeout  = 5 * time.Minute
	sweepInterval = time.Minute
	// Per pod, maxContainers containers and maxWaiting waiting statuses are kept of each kind (init or not).
	maxContainers = 32
	maxWaiting    = 4
)

// Limits of the pod cache, in bytes: one pod, its spec, all pods, and the pods of one namespace. A pod that is explained takes a few kilobytes.
const (
	maxPod          = 96 << 10
	maxSpec         = 32 << 10
	allPods         = 48 << 20
	podsOfNamespace = 8 << 20
)

// Pending returns the informer for pods that have not started and may be for Windows, with the fields from which causes are determined. Other pods
// are kept by identity only.
func Pending() kube.Informer {
	t := trimmer{mask.New()}
	return kube.Informer{
		Object: &corev1.Pod{}, Field: fields.OneTermEqualSelector("status.phase", string(corev1.PodPending)), Keep: kube.KeepFunc(t.pod), Bytes: maxPod,
		Share: &kube.Share{Total: allPods, PerOwner: podsOfNamespace, Owner: client.Object.GetNamespace},
	}
}

// trimmer reduces pods to what podcause reads, and masks secrets in the kubelets' messages.
type trimmer struct{ masker *mask.Masker }

func (t trimmer) pod(pod *corev1.Pod) (client.Object, bool) {
	kept := &corev1.Pod{
		TypeMeta: pod.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion, DeletionTimestamp: pod.DeletionTimestamp,
		},
	}
	if reported := pod.Annotations[api.AnnotationDoesNotStart]; reported != "" {
		kept.Annotations = map[string]string{api.AnnotationDoesNotStart: truncate.Text(reported, truncate.Note)}
	}
	if !podcause.MayBeForWindows(pod) {
		return kept, false
	}
	kept.Status = corev1.PodStatus{InitContainerStatuses: t.statuses(pod.Status.InitContainerStatuses), ContainerStatuses: t.statuses(pod.Status.ContainerStatuses)}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			kept.Status.Conditions = []corev1.PodCondition{{Type: c.Type, Status: c.Status, Reason: truncate.Text(c.Reason, truncate.Quoted)}}
		}
	}
	if kept.Spec = specOf(pod.Spec); kube.Memory(kept.Spec) > maxSpec {
		kept.Spec = podcause.TooLarge(kept.Spec)
	}
	return kept, true
}

func specOf(s corev1.PodSpec) corev1.PodSpec {
	kept := corev1.PodSpec{
		OS: s.OS, NodeName: s.NodeName, NodeSelector: s.NodeSelector, RuntimeClassName: s.RuntimeClassName, Tolerations: s.Tolerations,
		InitContainers: containers(s.InitContainers), Containers: containers(s.Containers),
	}
	if a := s.Affinity; a != nil && a.NodeAffinity != nil {
		kept.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution}}
	}
	if c := s.SecurityContext; c != nil && c.WindowsOptions != nil {
		kept.SecurityContext = &corev1.PodSecurityContext{WindowsOptions: account(c.WindowsOptions)}
	}
	return kept
}

func containers(all []corev1.Container) (kept []corev1.Container) {
	for _, c := range all[:min(len(all), maxContainers)] {
		current := corev1.Container{Name: c.Name, Resources: corev1.ResourceRequirements{Limits: c.Resources.Limits, Requests: c.Resources.Requests}}
		if s := c.SecurityContext; s != nil && s.WindowsOptions != nil {
			current.SecurityContext = &corev1.SecurityContext{WindowsOptions: account(s.WindowsOptions)}
		}
		kept = append(kept, current)
	}
	return kept
}

// account keeps whether there is a credential spec, not its content.
func account(o *corev1.WindowsSecurityContextOptions) *corev1.WindowsSecurityContextOptions {
	kept := &corev1.WindowsSecurityContextOptions{GMSACredentialSpecName: o.GMSACredentialSpecName}
	if o.GMSACredentialSpec != nil {
		kept.GMSACredentialSpec = new("")
	}
	return kept
}

// statuses keeps the kubelet's messages about waiting containers.
func (t trimmer) statuses(all []corev1.ContainerStatus) (list []corev1.ContainerStatus) {
	for _, s := range all {
		w := s.State.Waiting
		if w == nil || len(list) == maxWaiting {
			continue
		}
		list = append(list, corev1.ContainerStatus{
			Name: s.Name, Image: truncate.Text(s.Image, truncate.Note),
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: truncate.Text(w.Reason, truncate.Quoted), Message: podcause.DisplayText(w.Message, t.masker.Text)}},
		})
	}
	return list
}

// sweep removes annotations from pods that started while no operator was watching.
func (c *Controller) sweep(ctx context.Context) error {
	_ = wait.PollUntilContextCancel(ctx, sweepInterval, true, func(ctx context.Context) (done bool, _ error) {
		limited, err := c.Limited(ctx)
		if err == nil && limited {
			err = c.sweepOnce(ctx)
		}
		if err != nil {
			log.FromContext(ctx).Error(err, "Removing annotations of started pods failed, will be retried", "after", sweepInterval.String())
		}
		return err == nil && limited, nil
	})
	return nil
}

func (c *Controller) sweepOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	// Once the cache is synced, it reports pods that start.
	if err := c.Client.List(ctx, &corev1.PodList{}, client.Limit(1)); err != nil {
		return fmt.Errorf("waiting for the pod cache: %w", err)
	}
	for next := ""; ; {
		page := &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		if err := c.Live.List(ctx, page, client.MatchingFieldsSelector{Selector: fields.OneTermNotEqualSelector("status.phase", string(corev1.PodPending))},
			client.Limit(podsPage), client.Continue(next)); err != nil {
			return fmt.Errorf("listing pods: %w", err)
		}
		for i := range page.Items {
			pod := &page.Items[i]
			if pod.Annotations[api.AnnotationDoesNotStart] == "" {
				continue
			}
			if err := c.annotate(ctx, request{client.ObjectKeyFromObject(pod), pod.UID, true}, "", ""); err != nil {
				return err
			}
		}
		if next = page.Continue; next == "" {
			return nil
		}
	}
}

// newCount returns the metric of pods by annotated reason. Users may write annotations too, so only this operator's reasons count.
func newCount(pods client.Reader) kube.Gauges {
	return kube.NewGauges(func(ctx context.Context, sample kube.Sample) error {
		var list corev1.PodList
		if err := pods.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
			return err
		}
		found := map[string]int{}
		for i := range list.Items {
			found[podcause.Reported(&list.Items[i]).Reason]++
		}
		for _, reason := range api.PodReasons() {
			sample(api.MetricPodsNotStarted, float64(found[reason]), reason)
		}
		return nil
	}, api.MetricPodsNotStarted)
}
