//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// The file of a ConfigMap that the pods serve, and the folder in which it is mounted.
const (
	greeting = "Hello from a ConfigMap"
	file     = "greeting.txt"
	folder   = `C:\config`
)

// createGreeting creates the ConfigMap.
func createGreeting(ctx context.Context, env *testenv.Env) error {
	return env.Client.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: webserver}, Data: map[string]string{file: greeting},
	})
}

// showGreeting mounts the ConfigMap into the pods.
func showGreeting(d *appsv1.Deployment) {
	spec := &d.Spec.Template.Spec
	source := corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: webserver}}}
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "config", VolumeSource: source})
	spec.Containers[0].VolumeMounts = append(spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "config", MountPath: folder})
}

// startDNS starts the cluster's DNS on the node of the operator's pod, if pods run that can use it.
func startDNS(ctx context.Context, env *testenv.Env) error {
	if env.Pod == nil || !env.RunsPods() || lab.CanBalance() != nil {
		return nil
	}
	if err := env.StartDNS(ctx); err != nil {
		return err
	}
	logf("CoreDNS is the cluster's DNS, on node %s", env.Pod.Node.Name())
	return nil
}

// useService creates a Service for the pods, and sends requests from one of them to the Service's address and name.
func useService(ctx context.Context, env *testenv.Env) error {
	if !env.RunsPods() {
		return nil
	}
	if err := lab.CanBalance(); err != nil {
		logf("%v: the demo shows no Service", err)
		return nil
	}
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: webserver}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": webserver},
		Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(testenv.WebserverPort)}},
	}}
	if err := env.Client.Create(ctx, s); err != nil {
		return err
	}
	logf("Service %s is created for them, at ClusterIP %s", webserver, s.Spec.ClusterIP)
	if err := show(ctx, env, "http://"+s.Spec.ClusterIP); err != nil {
		return err
	}
	if env.Pod == nil {
		logf("The demo does not show its name: CoreDNS needs the Linux node")
		return nil
	}
	for _, url := range []string{"http://" + webserver, "http://" + webserver + "/file?name=" + folder + `\` + file} {
		if err := show(ctx, env, url); err != nil {
			return err
		}
	}
	logf("The Service answers at its ClusterIP and by its name, and a pod shows a ConfigMap")
	return nil
}

// show prints the response to a request from a pod.
func show(ctx context.Context, env *testenv.Env, url string) error {
	began := time.Now()
	from, response, err := request(ctx, env, url)
	if err == nil {
		fmt.Printf("%7.1f s  %s requests %s: %s\n", time.Since(began).Seconds(), from, url, response)
	}
	return err
}

// request sends requests from a pod until one succeeds.
func request(ctx context.Context, env *testenv.Env, url string) (from, response string, err error) {
	for {
		pods, err := env.Pods(ctx, webserver)
		if err == nil && len(pods) == 0 {
			err = errors.New("the Deployment has no pods")
		}
		if err == nil {
			var code int
			response, code, err = env.Exec(ctx, &pods[0], "", "webserver", "get", url)
			if response = strings.TrimSpace(response); err == nil && code == 0 && !strings.HasPrefix(response, "error: ") {
				return pods[0].Name, response, nil
			}
		}
		select {
		case <-ctx.Done():
			return "", "", fmt.Errorf("requesting %s: %w: %s", url, errors.Join(context.Cause(ctx), err), response)
		case <-time.After(refresh):
		}
	}
}
