//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/manifest"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// admissions is how many pods are created in each of two namespaces, after some that are not counted.
const (
	admissions = 500
	warmUp     = 50
)

// admission is a cluster with the policies about pods, and two namespaces.
type admission struct {
	clients       kubernetes.Interface
	with, without string // the policies are bound in one of them
}

// measureAdmission measures what the policies add to the creation of a pod: validation, mutation, and the second run of all plugins that the
// mutation causes. Pods are created in a namespace for which they are bound, and in one for which they are not, in turn.
func measureAdmission(ctx context.Context, s *sheet) error {
	cp, err := lab.StartControlPlane(ctx, lab.ControlPlaneOptions{Progress: s.progress})
	if err != nil {
		return err
	}
	defer cp.Stop()
	root, err := testenv.Repository(ctx)
	if err != nil {
		return err
	}
	for _, dir := range []string{"deploy", "deploy/workloads"} {
		if err := manifest.Apply(ctx, cp.RESTConfig(), filepath.Join(root, dir)); err != nil {
			return err
		}
	}
	config := cp.RESTConfig()
	config.WarningHandler = rest.NoWarnings{}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	a := admission{clients, "with", "without"}
	if err := a.prepare(ctx); err != nil {
		return err
	}
	with, added, err := a.measure(ctx)
	if err != nil {
		return err
	}
	s.number("pod.admission_ms", with, "ms")
	s.number("pod.admission_ms_added", added, "ms")
	return nil
}

// prepare creates the namespaces and a RuntimeClass, and waits until the policies are in force.
func (a admission) prepare(ctx context.Context) error {
	class := &nodev1.RuntimeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "windows2022", Labels: map[string]string{api.LabelManagedBy: api.ManagedBy, api.LabelImages: "ltsc2022"}},
		Handler:    "runhcs-wcow-process", Scheduling: &nodev1.Scheduling{NodeSelector: map[string]string{corev1.LabelWindowsBuild: "10.0.20348"}},
	}
	if _, err := a.clients.NodeV1().RuntimeClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return err
	}
	for name, labels := range map[string]map[string]string{a.with: nil, a.without: {api.LabelPodRules: "off", api.LabelAssignRuntimeClass: "false"}} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
		if _, err := a.clients.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		pod, _, err := a.create(ctx, a.with)
		other, _, errOther := a.create(ctx, a.without)
		if err == nil && errOther == nil && pod.Spec.RuntimeClassName != nil {
			if other.Spec.RuntimeClassName != nil {
				return fmt.Errorf("the policies are in force in namespace %s", a.without)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until the policies are in force: %w", errors.Join(ctx.Err(), err, errOther))
		case <-time.After(pollInterval):
		}
	}
}

// create creates a pod as a dry run, and returns how many milliseconds that took.
func (a admission) create(ctx context.Context, namespace string) (*corev1.Pod, float64, error) {
	memory := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{
		OS: &corev1.PodOS{Name: corev1.Windows}, Containers: []corev1.Container{{
			Name: "web", Image: "mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2022", Resources: corev1.ResourceRequirements{Limits: memory},
		}},
	}}
	began := time.Now()
	pod, err := a.clients.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return pod, 1000 * time.Since(began).Seconds(), err
}

// measure returns the median with the policies, and the median of what they add in each pair.
func (a admission) measure(ctx context.Context) (with, added float64, err error) {
	var all, differences []float64
	for n := range warmUp + admissions {
		took := map[string]float64{}
		order := []string{a.with, a.without}
		if n%2 == 1 {
			order = []string{a.without, a.with}
		}
		for _, namespace := range order {
			if _, took[namespace], err = a.create(ctx, namespace); err != nil {
				return 0, 0, err
			}
		}
		if n >= warmUp {
			all, differences = append(all, took[a.with]), append(differences, took[a.with]-took[a.without])
		}
	}
	return median(all), median(differences), nil
}
