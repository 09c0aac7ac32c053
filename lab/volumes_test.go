//go:build linux

package lab_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// volumes runs pods with volumes: each container has a drive C: of its own.
func (p pods) volumes() {
	p.create(
		&corev1.ConfigMap{ObjectMeta: inDefault("settings"), Data: map[string]string{"color": "blue", "old": "yes"}},
		&corev1.Secret{ObjectMeta: inDefault("password"), StringData: map[string]string{"password": "open sesame"}},
	)
	if _, err := p.WinWebserver(p.t.Context(), "volumes", 2, withVolumes); err != nil {
		p.t.Fatal(err)
	}
	all := p.expectServing("volumes", 2)
	p.t.Run("ContainersSeeTheirVolumes", func(t *testing.T) { p.withT(t).seeMounts(&all[0]) })
	p.t.Run("ContainersOfPodShareVolumes", func(t *testing.T) { p.withT(t).shareVolumes(all) })
	p.t.Run("DrivesAreSeparate", func(t *testing.T) { p.withT(t).separateDrives(all) })
	p.t.Run("ReadOnlyMountsCannotBeChanged", func(t *testing.T) { p.withT(t).readOnly(&all[0]) })
	p.t.Run("ConfigMapChangesReachContainers", func(t *testing.T) { p.withT(t).changeArrives(&all[0]) })
	p.t.Run("ContainersUseResources", func(t *testing.T) { p.withT(t).cost() })
	p.t.Run("DrivesAreRemovedWithTheirPods", func(t *testing.T) { p.withT(t).drivesRemoved("volumes") })
}

func inDefault(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}
}

func (p pods) create(objects ...client.Object) {
	p.t.Helper()
	for _, o := range objects {
		must(p.t, p.Client.Create(p.t.Context(), o))
	}
}

// withVolumes adds volumes of all kinds and a second container to a Deployment.
func withVolumes(d *appsv1.Deployment) {
	mount := func(name, path string) corev1.VolumeMount { return corev1.VolumeMount{Name: name, MountPath: path} }
	spec := &d.Spec.Template.Spec
	web := &spec.Containers[0]
	spec.AutomountServiceAccountToken = new(true)
	spec.Volumes = []corev1.Volume{
		{Name: "settings", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}},
		{Name: "password", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "password"}}},
		{Name: "shared", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: `C:\data`}}},
	}
	web.VolumeMounts = []corev1.VolumeMount{
		mount("settings", `C:\config`), mount("password", "/etc/secrets"), mount("shared", `C:\shared`),
		{Name: "shared", MountPath: `C:\part`, SubPath: "part"}, {Name: "host", MountPath: `C:\of-host`, ReadOnly: true},
	}
	second := web.DeepCopy()
	second.Name, second.VolumeMounts, second.Ports, second.ReadinessProbe = "second", []corev1.VolumeMount{mount("shared", `C:\other`)}, nil, nil
	second.Env = append(second.Env, corev1.EnvVar{Name: "PORT", Value: "8081"})
	spec.Containers = append(spec.Containers, *second)
}

// read returns the content of a file in a container, or its exit code as text.
func (p pods) read(pod *corev1.Pod, container, path string) string {
	p.t.Helper()
	text, code, err := p.ExecIn(p.t.Context(), pod, container, "", "webserver", "read", path)
	if err != nil {
		p.t.Fatalf("reading %s in %s: %v", path, pod.Name, err)
	}
	if code != 0 {
		return fmt.Sprintf("exit code %d", code)
	}
	return text
}

func (p pods) write(pod *corev1.Pod, container, path, text string) (code int) {
	p.t.Helper()
	_, code, err := p.ExecIn(p.t.Context(), pod, container, text, "webserver", "write", path)
	if err != nil {
		p.t.Fatalf("writing %s in %s: %v", path, pod.Name, err)
	}
	return code
}

func (p pods) seeMounts(pod *corev1.Pod) {
	for path, want := range map[string]string{
		`C:\config\color`: "blue", `C:\config\old`: "yes", `C:\etc\secrets\password`: "open sesame", `C:\of-host\host.txt`: "of the host",
		`C:\var\run\secrets\kubernetes.io\serviceaccount\namespace`: "default",
		`C:\var\run\secrets\kubernetes.io\serviceaccount\ca.crt`:    string(p.Lab.ControlPlane.CA()),
	} {
		if got := p.read(pod, "web", path); got != want {
			p.t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	if token := p.read(pod, "web", `C:\var\run\secrets\kubernetes.io\serviceaccount\token`); strings.Count(token, ".") != 2 {
		p.t.Errorf("the token has %d characters and is no JSON web token", len(token))
	}
}

func (p pods) shareVolumes(all []corev1.Pod) {
	for i := range all {
		if code := p.write(&all[i], "web", `C:\shared\note`, all[i].Name); code != 0 {
			p.t.Errorf("writing to an emptyDir: exit code %d", code)
		}
		if code := p.write(&all[i], "web", `C:\part\note`, "in a part"); code != 0 {
			p.t.Errorf("writing to a subPath of an emptyDir: exit code %d", code)
		}
	}
	for i := range all {
		for path, want := range map[string]string{`C:\other\note`: all[i].Name, `C:\other\part\note`: "in a part"} {
			if got := p.read(&all[i], "second", path); got != want {
				p.t.Errorf("%s in the second container of %s: got %q, want %q", path, all[i].Name, got, want)
			}
		}
	}
}

// separateDrives checks that a file of one container is in no other container and not on the host.
func (p pods) separateDrives(all []corev1.Pod) {
	for _, path := range []string{`C:\mine`, `C:\windows\temp\mine`} {
		if code := p.write(&all[0], "web", path, "mine"); code != 0 {
			p.t.Errorf("writing %s: exit code %d", path, code)
		}
		if got := p.read(&all[0], "web", path); got != "mine" {
			p.t.Errorf("%s in the container that wrote it: got %q, want %q", path, got, "mine")
		}
		for pod, container := range map[*corev1.Pod]string{&all[0]: "second", &all[1]: "web"} {
			if got := p.read(pod, container, path); got != "exit code 1" {
				p.t.Errorf("container %s of %s sees %s of another container: %q", container, pod.Name, path, got)
			}
		}
		if _, err := p.host.Stat(path); err == nil {
			p.t.Errorf("the host sees %s of a container", path)
		}
	}
	for _, path := range []string{`C:\k\kubelet.conf`, `C:\lab\hostcompute.log`, `C:\data\host.txt`} {
		if _, err := p.host.Stat(path); err != nil {
			p.t.Error(err)
		}
		if got := p.read(&all[0], "web", path); got != "exit code 1" {
			p.t.Errorf("a container sees %s of its host", path)
		}
	}
}

func (p pods) readOnly(pod *corev1.Pod) {
	for _, path := range []string{`C:\of-host\host.txt`, `C:\windows\new`} {
		if code := p.write(pod, "web", path, "changed"); code == 0 {
			p.t.Errorf("a container can write %s", path)
		}
	}
}

func (p pods) changeArrives(pod *corev1.Pod) {
	p.update(&corev1.ConfigMap{ObjectMeta: inDefault("settings"), Data: map[string]string{"color": "green", "new": "yes"}})
	before := pod.DeepCopy()
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "lab.test/sync", "now") // the kubelet writes volumes each minute, or when the pod changes
	must(p.t, p.Client.Patch(p.t.Context(), pod, client.MergeFrom(before)))
	p.eventually("the container sees the changed ConfigMap", func(context.Context) string {
		for path, want := range map[string]string{`C:\config\color`: "green", `C:\config\new`: "yes", `C:\config\old`: "exit code 1"} {
			if got := p.read(pod, "web", path); got != want {
				return fmt.Sprintf("%s is %q, want %q", path, got, want)
			}
		}
		return ""
	})
}

func (p pods) update(o client.Object) {
	p.t.Helper()
	must(p.t, p.Client.Update(p.t.Context(), o))
}

// cost logs the resources that containers use. Each pod has two containers and its sandbox container.
func (p pods) cost() {
	const count = 3
	memory, disk, err := p.host.Usage()
	must(p.t, err)
	began := time.Now()
	if _, err := p.WinWebserver(p.t.Context(), "cost", count, withVolumes); err != nil {
		p.t.Fatal(err)
	}
	p.expectServing("cost", count)
	took := time.Since(began)
	memoryAfter, diskAfter, err := p.host.Usage()
	must(p.t, err)
	const containers = 3 * count
	p.t.Logf("%d pods with %d containers served after %.1f s: %.1f s, %.1f MB of memory and %.1f MB of disk each", count, containers, took.Seconds(),
		took.Seconds()/containers, float64(memoryAfter-memory)/containers/1e6, float64(diskAfter-disk)/containers/1e6)
	p.drivesRemoved("cost")
}

// drivesRemoved deletes an app and checks that the drives of its containers are removed from the host.
func (p pods) drivesRemoved(app string) {
	drives, err := p.host.Drives()
	if err != nil || len(drives) == 0 {
		p.t.Fatalf("drives of the host: got %v (%v), want some", drives, err)
	}
	all, err := p.Pods(p.t.Context(), app)
	must(p.t, err)
	must(p.t, p.Client.Delete(p.t.Context(), &appsv1.Deployment{ObjectMeta: inDefault(app)}))
	p.eventually("the drives of "+app+" are removed", func(context.Context) string {
		left, err := p.host.Drives()
		if err != nil || len(left) != len(drives)-3*len(all) {
			return fmt.Sprintf("%d drives remain of %d (%v)", len(left), len(drives), err)
		}
		return ""
	})
}
