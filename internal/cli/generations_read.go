package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
	"github.com/windows-machine-config/wmco/internal/observe/generations"
)

// Limits of reading a cluster.
const (
	// objectsPage is the number of objects in a response.
	objectsPage = 500
	// maxObjects is the number of objects of a kind that are read.
	maxObjects = 50_000
)

// clusterReader reads the objects that an assessment of workloads needs.
type clusterReader struct {
	client client.Client

	mu     sync.Mutex // guards the fields below
	found  generations.Cluster
	unread []fleetstatus.Unread
}

// note records what could not be read.
func (r *clusterReader) note(what string, err error) {
	if err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.ContainsFunc(r.unread, func(u fleetstatus.Unread) bool { return u.What == what }) {
		return
	}
	r.unread = append(r.unread, fleetstatus.Unread{What: what, Why: err.Error()})
	slices.SortFunc(r.unread, func(a, b fleetstatus.Unread) int { return strings.Compare(a.What, b.What) })
}

// read reads the cluster. It fails if it cannot read the nodes or the pods; other failed reads are in unread.
func (r *clusterReader) read(ctx context.Context) (generations.Cluster, error) {
	// This request runs alone: concurrent requests would each run a failing credential plugin.
	var nodes corev1.NodeList
	if err := r.client.List(ctx, &nodes, client.MatchingLabels{corev1.LabelOSStable: string(corev1.Windows)}); err != nil {
		return r.found, session.Explain(err, "listing nodes")
	}
	r.found.Nodes = nodes.Items
	var work sync.WaitGroup
	var podsErr error
	work.Go(func() { podsErr = r.pods(ctx) })
	work.Go(func() { r.note("runtimeclasses", r.classes(ctx)) })
	for what, list := range map[string]func() client.ObjectList{
		"deployments":  func() client.ObjectList { return &appsv1.DeploymentList{} },
		"statefulsets": func() client.ObjectList { return &appsv1.StatefulSetList{} },
		"daemonsets":   func() client.ObjectList { return &appsv1.DaemonSetList{} },
		"replicasets":  func() client.ObjectList { return &appsv1.ReplicaSetList{} },
		"jobs":         func() client.ObjectList { return &batchv1.JobList{} },
		"cronjobs":     func() client.ObjectList { return &batchv1.CronJobList{} },
	} {
		work.Go(func() {
			r.note(what, r.pages(ctx, what, list, func(page client.ObjectList) {
				r.found.Objects = append(r.found.Objects, generations.Objects(page)...)
			}))
		})
	}
	work.Wait()
	return r.found, podsErr
}

func (r *clusterReader) pods(ctx context.Context) error {
	windows := map[string]bool{}
	for i := range r.found.Nodes {
		windows[r.found.Nodes[i].Name] = true
	}
	return r.pages(ctx, "pods", func() client.ObjectList { return &corev1.PodList{} }, func(page client.ObjectList) {
		for _, p := range page.(*corev1.PodList).Items {
			if generations.Relevant(&p, func(node string) bool { return windows[node] }) {
				p.ManagedFields = nil
				r.found.Pods = append(r.found.Pods, p)
			}
		}
	})
}

func (r *clusterReader) classes(ctx context.Context) error {
	var list nodev1.RuntimeClassList
	if err := r.client.List(ctx, &list); err != nil {
		return session.Explain(err, "listing runtimeclasses")
	}
	classes := map[string]*nodev1.RuntimeClass{}
	for i := range list.Items {
		classes[list.Items[i].Name] = &list.Items[i]
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found.Classes = classes
	return nil
}

// pages lists a resource in all namespaces, page by page, and calls each for one page at a time.
func (r *clusterReader) pages(ctx context.Context, resource string, list func() client.ObjectList, each func(client.ObjectList)) error {
	next := ""
	for range maxObjects / objectsPage {
		page := list()
		if err := r.client.List(ctx, page, client.Limit(objectsPage), client.Continue(next)); err != nil {
			return session.Explain(err, "listing "+resource)
		}
		r.mu.Lock()
		each(page)
		r.mu.Unlock()
		if next = page.GetContinue(); next == "" {
			return nil
		}
	}
	return session.Failf(session.CodeFailed, "only the first %d %s were read", maxObjects, resource)
}

// pullSecrets returns the credentials in the pull secrets of a workload: those of its pods or, if they name none, of their ServiceAccount, as its
// admission plugin adds them. Secrets that do not exist are left out, as the kubelet does.
func (r *clusterReader) pullSecrets(ctx context.Context, w *generations.Workload) (secrets [][]byte) {
	references := w.Template.ImagePullSecrets
	if len(references) == 0 {
		account := corev1.ServiceAccount{}
		name := client.ObjectKey{Namespace: w.Namespace, Name: w.Template.ServiceAccountName}
		if name.Name == "" {
			name.Name = "default"
		}
		if err := r.client.Get(ctx, name, &account); err != nil {
			r.note("serviceaccount "+name.String(), session.Explain(client.IgnoreNotFound(err), "reading ServiceAccount "+name.String()))
			return nil
		}
		references = account.ImagePullSecrets
	}
	for i, reference := range references {
		if i == maxPullSecrets {
			r.note("pull secrets of "+w.Namespace, fmt.Errorf("only the first %d of %s %s were read", maxPullSecrets, w.Kind, w.Name))
			break
		}
		var secret corev1.Secret
		name := client.ObjectKey{Namespace: w.Namespace, Name: reference.Name}
		if err := r.client.Get(ctx, name, &secret); err != nil {
			r.note("secret "+name.String(), session.Explain(client.IgnoreNotFound(err), "reading Secret "+name.String()))
			continue
		}
		switch secret.Type {
		case corev1.SecretTypeDockerConfigJson:
			secrets = append(secrets, secret.Data[corev1.DockerConfigJsonKey])
		case corev1.SecretTypeDockercfg:
			secrets = append(secrets, fmt.Appendf(nil, `{"auths": %s}`, secret.Data[corev1.DockerConfigKey]))
		}
	}
	return secrets
}
