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

// The pods serve a file of a ConfigMap, mounted in a folder.
const (
	greeting = "Hello from a ConfigMap"
	file     = "greeting.txt"
	folder   = `C:\config`
)

// createGreeting creates the ConfigMap that the pods show.
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

// startDNS starts the cluster's DNS on the node of the operator's pod, where pods run that can use it.
func startDNS(ctx context.Context, env *testenv.Env) error {
	if env.Pod == nil || !env.RunsPods() || lab.CanBalance() != nil {
		return nil
	}
	if err := env.StartDNS(ctx); err != nil {
		return err
	}
	say("CoreDNS is the cluster's DNS, on node %s", env.Pod.Node.Name())
	return nil
}

// useService creates a Service for the pods, and shows that it answers in one of them: at its address, and by its name.
func useService(ctx context.Context, env *testenv.Env) error {
	if !env.RunsPods() {
		return nil
	}
	if err := lab.CanBalance(); err != nil {
		say("%v: no Service is shown", err)
		return nil
	}
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: webserver}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": webserver},
		Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(testenv.WebserverPort)}},
	}}
	if err := env.Client.Create(ctx, s); err != nil {
		return err
	}
	say("Service %s is created for them, at ClusterIP %s", webserver, s.Spec.ClusterIP)
	if err := show(ctx, env, "http://"+s.Spec.ClusterIP); err != nil {
		return err
	}
	if env.Pod == nil {
		say("Its name is not shown: CoreDNS needs the Linux node")
		return nil
	}
	for _, url := range []string{"http://" + webserver, "http://" + webserver + "/file?name=" + folder + `\` + file} {
		if err := show(ctx, env, url); err != nil {
			return err
		}
	}
	say("The Service answers at its ClusterIP and by its name, and a pod shows a ConfigMap")
	return nil
}

// show prints the answer to a request of a pod.
func show(ctx context.Context, env *testenv.Env, url string) error {
	began := time.Now()
	from, answer, err := ask(ctx, env, url)
	if err == nil {
		fmt.Printf("%7.1f s  %s asks %s: %s\n", time.Since(began).Seconds(), from, url, answer)
	}
	return err
}

// ask sends requests from a pod until there is an answer.
func ask(ctx context.Context, env *testenv.Env, url string) (from, answer string, err error) {
	for {
		pods, err := env.Pods(ctx, webserver)
		if err == nil && len(pods) == 0 {
			err = errors.New("there are no pods")
		}
		if err == nil {
			var code int
			answer, code, err = env.Exec(ctx, &pods[0], "", "webserver", "get", url)
			if answer = strings.TrimSpace(answer); err == nil && code == 0 && !strings.HasPrefix(answer, "error: ") {
				return pods[0].Name, answer, nil
			}
		}
		select {
		case <-ctx.Done():
			return "", "", fmt.Errorf("asking %s: %w: %s", url, errors.Join(context.Cause(ctx), err), answer)
		case <-time.After(refresh):
		}
	}
}
