//go:build linux

package lab_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// TestContainers runs containers on a Windows host: with volumes, with a network for each pod, with limits, and on the host itself.
func TestContainers(t *testing.T) {
	p := openPods(t)
	must(t, p.host.WriteFile(`C:\data\host.txt`, []byte("of the host")))
	t.Run("Volumes", func(t *testing.T) { p.withT(t).volumes() })
	if _, err := p.WinWebserver(t.Context(), "web", 2, nil); err != nil {
		t.Fatal(err)
	}
	p.expectServing("web", 2)
	t.Run("PodsCanListenOnTheSamePort", func(t *testing.T) { p.withT(t).samePort() })
	t.Run("EachPodHasItsOwnLoopback", func(t *testing.T) { p.withT(t).loopback() })
	t.Run("PortForwardReachesThePod", func(t *testing.T) { p.withT(t).forward() })
	t.Run("AttachSendsInputToTheProgram", func(t *testing.T) { p.withT(t).attach() })
	t.Run("HostProcessContainersRunOnTheHost", func(t *testing.T) { p.withT(t).hostProcess() })
	t.Run("KubectlWindowsExecRunsOnTheHost", func(t *testing.T) { p.withT(t).commands() })
	t.Run("MemoryIsLimited", func(t *testing.T) { p.withT(t).memoryLimit() })
	t.Run("ProcessorsAreLimited", func(t *testing.T) { p.withT(t).processorLimit() })
	t.Run("ProcessorTimeIsCountedPerContainer", func(t *testing.T) { p.withT(t).processorTime() })
}

// webserver runs the web server program in a pod, and returns the lines of its output.
func (p pods) webserver(from *corev1.Pod, arguments ...string) []string {
	p.t.Helper()
	output, code, err := p.Exec(p.t.Context(), from, "", append([]string{"webserver"}, arguments...)...)
	if err != nil || code != 0 {
		p.t.Fatalf("webserver %v in %s: exit code %d (%v): %s", arguments, from.Name, code, err, output)
	}
	return strings.Split(strings.TrimSpace(output), "\n")
}

// samePort checks that two pods of a host can listen on the same port, with TCP and UDP, and reach each other.
func (p pods) samePort() {
	all := p.expectServing("web", 2)
	for i := range all {
		from, to := &all[i], &all[1-i]
		address := net.JoinHostPort(to.Status.PodIP, strconv.Itoa(testenv.WebserverPort))
		if got := p.webserver(from, "get", "http://"+address); got[0] != to.Name {
			p.t.Errorf("HTTP response of %s: got %q, want its name", to.Name, got)
		}
		if got := p.webserver(from, "udp", address); got[0] != to.Name {
			p.t.Errorf("UDP response of %s: got %q, want its name", to.Name, got)
		}
		client, _, err := net.SplitHostPort(p.webserver(from, "get", "http://"+address+"/client")[0])
		if err != nil || client != from.Status.PodIP {
			p.t.Errorf("%s sees client %s (%v), want pod %s with %s", to.Name, client, err, from.Name, from.Status.PodIP)
		}
	}
}

func (p pods) loopback() {
	for _, pod := range p.expectServing("web", 2) {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(testenv.WebserverPort))
		if got := []string{p.webserver(&pod, "get", "http://"+address)[0], p.webserver(&pod, "udp", address)[0]}; !slices.Equal(got, []string{pod.Name, pod.Name}) {
			p.t.Errorf("responses of %s in %s: got %q, want the pod's name", address, pod.Name, got)
		}
	}
}

func (p pods) forward() {
	pod := p.expectServing("web", 2)[0]
	port, stop, err := p.Forward(p.t.Context(), &pod, testenv.WebserverPort)
	must(p.t, err)
	defer stop()
	for range 2 {
		if response, err := testenv.CallPort(p.t.Context(), "127.0.0.1", int(port), "/"); err != nil || response != pod.Name {
			p.t.Errorf("response of the forwarded port: got %q (%v), want %q", response, err, pod.Name)
		}
	}
}

// jobPod returns a pod that runs a command of the web server to completion.
func jobPod(name string, command ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: inDefault(name), Spec: testenv.WebserverPod()}
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	c := &pod.Spec.Containers[0]
	c.Command, c.ReadinessProbe, c.Ports = append([]string{lab.WebserverProgram}, command...), nil, nil
	return pod
}

// awaitPhase waits until a pod is in a phase.
func (p pods) awaitPhase(pod *corev1.Pod, phase corev1.PodPhase) {
	p.t.Helper()
	p.eventually(fmt.Sprintf("pod %s is %s", pod.Name, phase), func(ctx context.Context) string {
		if err := p.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err.Error()
		}
		if pod.Status.Phase != phase {
			return fmt.Sprintf("phase %s: %+v", pod.Status.Phase, pod.Status.ContainerStatuses)
		}
		return ""
	})
}

func (p pods) attach() {
	pod := jobPod("attached", "echo")
	pod.Spec.Containers[0].Stdin, pod.Spec.Containers[0].StdinOnce = true, true
	p.create(pod)
	p.awaitPhase(pod, corev1.PodRunning)
	if output, err := p.Attach(p.t.Context(), pod, "typed"); err != nil || output != "typed" {
		p.t.Errorf("output of the attached program: got %q (%v), want %q", output, err, "typed")
	}
	p.awaitPhase(pod, corev1.PodSucceeded)
}

// hostProcess runs a DaemonSet with a HostProcess container.
func (p pods) hostProcess() {
	const port = 8085
	p.create(&corev1.ConfigMap{ObjectMeta: inDefault("of-host-process"), Data: map[string]string{"color": "blue"}})
	labels := map[string]string{"app": "host-process"}
	d := &appsv1.DaemonSet{ObjectMeta: inDefault("host-process")}
	d.Spec = appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: testenv.WebserverPod(fmt.Sprintf("PORT=%d", port)),
	}}
	spec := &d.Spec.Template.Spec
	spec.HostNetwork = true
	spec.SecurityContext = &corev1.PodSecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{HostProcess: new(true), RunAsUserName: new(`NT AUTHORITY\SYSTEM`)}}
	spec.Volumes = []corev1.Volume{{Name: "settings", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "of-host-process"}},
	}}}
	c := &spec.Containers[0]
	c.Command, c.Ports = []string{`C:\hpc\webserver.exe`}, []corev1.ContainerPort{{ContainerPort: port, HostPort: port}}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "settings", MountPath: `C:\config`}}
	c.ReadinessProbe.TCPSocket.Port = intstr.FromInt32(port)
	p.create(d)
	var pod corev1.Pod
	p.eventually("the HostProcess container serves at the host's address", func(ctx context.Context) string {
		all, err := p.Pods(ctx, "host-process")
		if err != nil || len(all) != 1 {
			return fmt.Sprintf("%d pods (%v), want 1", len(all), err)
		}
		pod = all[0]
		response, err := testenv.CallPort(ctx, p.host.Address(), port, "/")
		if err != nil || response != pod.Name || pod.Status.PodIP != p.host.Address() {
			return fmt.Sprintf("pod %s with address %s responds with %q (error %v): %+v", pod.Name, pod.Status.PodIP, response, err, pod.Status.ContainerStatuses)
		}
		return ""
	})
	if worked, err := p.ProcessorTime(p.t.Context(), &pod, "web"); err != nil || lab.CanLimit() == nil && worked == 0 {
		p.t.Errorf("the kubelet reports processor time %v (%v)", worked, err)
	}
	for path, want := range map[string]string{`C:\data\host.txt`: "of the host", `C:\config\color`: "blue"} {
		if got := p.read(&pod, "web", path); got != want {
			p.t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	if _, err := p.host.Stat(`C:\config\color`); err == nil {
		p.t.Error("a volume of the container is visible on the host")
	}
	if code := p.write(&pod, "web", `C:\data\of-container.txt`, "of the container"); code != 0 {
		p.t.Errorf("writing a file in the container: exit code %d", code)
	}
	if text, err := p.host.ReadFile(`C:\data\of-container.txt`); err != nil || string(text) != "of the container" {
		p.t.Errorf("the container's file on the host: got %q (%v)", text, err)
	}
	must(p.t, p.Client.Delete(p.t.Context(), d))
	p.eventually("the HostProcess container ends", func(ctx context.Context) string {
		if response, err := testenv.CallPort(ctx, p.host.Address(), port, "/"); err == nil {
			return fmt.Sprintf("the port still responds with %q", response)
		}
		return ""
	})
}

// wineStartFailure is part of containerd's message when a process of Wine ends before its program starts, which is rare and happens on busy machines.
// Windows has no such failure. The kubelet starts the containers of other pods again; those of kubectl windows exec run once.
const wineStartFailure = "containerd-shim-runhcs-v1.exe: Internal error."

// commands uses kubectl windows exec.
func (p pods) commands() {
	plugin, err := p.Plugin(p.t.Context())
	must(p.t, err)
	for _, test := range []struct {
		command []string
		output  string
		code    int
	}{
		{[]string{"cmd.exe", "/c", "type", `C:\data\host.txt`}, "of the host", 0},
		{[]string{"cmd.exe", "/c", "exit", "7"}, "", 7},
		{[]string{"hostname.exe"}, strings.ToUpper(p.host.Name()), 0},
	} {
		args := append([]string{"exec", p.host.Name(), "--"}, test.command...)
		result, err := plugin.Run(p.t.Context(), args...)
		for retry := 0; retry < 2 && strings.Contains(result.Err, wineStartFailure); retry++ {
			p.t.Logf("starting %q again: %s", test.command, result.Err)
			result, err = plugin.Run(p.t.Context(), args...)
		}
		if err != nil || strings.TrimSpace(result.Out) != test.output || result.Code != test.code {
			p.t.Errorf("%q: output %q, exit code %d (%v): %s", test.command, result.Out, result.Code, err, result.Err)
		}
	}
}

// memoryLimit runs a container that exceeds its memory limit, and one that does not.
func (p pods) memoryLimit() {
	limited := func(name, megabytes string) *corev1.Pod {
		pod := jobPod(name, "fill", megabytes)
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")}
		p.create(pod)
		return pod
	}
	p.awaitPhase(limited("below-limit", "20"), corev1.PodSucceeded)
	exceeding := limited("above-limit", "500")
	p.awaitPhase(exceeding, corev1.PodFailed)
	const outOfMemory = 2 // exit code of Go's runtime when Windows denies it memory
	if terminated := exceeding.Status.ContainerStatuses[0].State.Terminated; terminated.ExitCode != outOfMemory {
		p.t.Errorf("a container that exceeds its memory limit ended with %+v, want exit code %d", terminated, outOfMemory)
	}
}

func (p pods) processorLimit() {
	if err := lab.CanLimit(); err != nil {
		p.t.Skip("SKIPPED:", err)
	}
	pod := jobPod("slow", "spin", "10")
	pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m")}
	p.create(pod)
	p.awaitPhase(pod, corev1.PodSucceeded)
	log, err := p.Logs(p.t.Context(), pod, false)
	share, parseErr := strconv.Atoi(strings.TrimSpace(log))
	if err != nil || parseErr != nil || share > 30 {
		p.t.Errorf("a container with limit 200m used %q %% of a processor (%v), want at most 30", log, err)
	}
	p.t.Logf("a container with limit 200m used %d %% of a processor", share)
}

// processorTime compares the processor time that a program measures itself with the kubelet's values for its container and for
// an idle one.
func (p pods) processorTime() {
	if err := lab.CanLimit(); err != nil {
		p.t.Skip("SKIPPED:", err)
	}
	all := p.expectServing("web", 2)
	reported := func() (times [2]time.Duration) {
		for i := range all {
			var err error
			if times[i], err = p.ProcessorTime(p.t.Context(), &all[i], "web"); err != nil {
				p.t.Fatal(err)
			}
		}
		return times
	}
	const seconds = 10
	before := reported()
	share, err := strconv.Atoi(p.webserver(&all[0], "spin", strconv.Itoa(seconds))[0])
	must(p.t, err)
	after := reported()
	used := time.Duration(share) * seconds * time.Second / 100
	busy, idle := after[0]-before[0], after[1]-before[1]
	p.t.Logf("a program used %v; the kubelet reports %v for its container and %v for an idle one", used, busy, idle)
	const overhead = 3 * time.Second // of Wine: more than the start of a program needs
	if busy < used || busy > used+overhead || idle < 0 || idle > overhead {
		p.t.Errorf("the kubelet reported %v before and %v after", before, after)
	}
}
