//go:build linux

package lab_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
	"github.com/windows-machine-config/wmco/lab/windows/hns"
)

// podTimeout is the timeout for operations that take seconds on an idle machine.
const podTimeout = 3 * time.Minute

// TestPods runs pods on a Windows host with the real kubelet.exe, containerd.exe, containerd-shim-runhcs-v1.exe, win-overlay.exe
// and host-local.exe.
func TestPods(t *testing.T) {
	p := openPods(t)
	if _, err := p.WinWebserver(t.Context(), "win-webserver", 2, nil); err != nil {
		t.Fatal(err)
	}
	p.expectServing("win-webserver", 2)
	t.Run("LogsAndExecWork", func(t *testing.T) { p.withT(t).logsAndExec() })
	t.Run("FailedContainersAreRestarted", func(t *testing.T) { p.withT(t).failureRestarts() })
	t.Run("TerminatedContainersAreRestarted", func(t *testing.T) { p.withT(t).terminationRestarts() })
	t.Run("PodsSurviveContainerdCrash", func(t *testing.T) { p.withT(t).surviveContainerd() })
	t.Run("PodsAreStoppedGracefully", func(t *testing.T) { p.withT(t).stopping() })
	t.Run("AgnhostRuns", func(t *testing.T) { p.withT(t).agnhost() })
	t.Run("PodsRecoverFromReboot", func(t *testing.T) { p.withT(t).recover(p.host.Reboot) })
	t.Run("PodsRecoverFromPowerCut", func(t *testing.T) {
		p.withT(t).recover(func(ctx context.Context) error {
			p.host.PowerOff()
			return p.host.Boot(ctx)
		})
	})
	t.Run("DeletedPodsAreCleanedUp", func(t *testing.T) { p.withT(t).cleanUp() })
}

// pods is an environment with a Windows host whose node is Ready.
type pods struct {
	*testenv.Env
	t    *testing.T
	host *lab.Host
}

func openPods(t *testing.T) pods {
	t.Helper()
	for _, missing := range []error{lab.CanRunWindows(), lab.CanRunRegistries()} {
		if missing != nil {
			t.Skip("SKIPPED:", missing)
		}
	}
	env, err := testenv.Open(t.Context(), testenv.Options{WineHosts: 1, Network: testenv.NetworkLab, Log: os.Stderr})
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(env.Lab.Logs())
		}
		env.Close()
	})
	must(t, env.Configure(t.Context()))
	must(t, env.Announce(t.Context(), env.Hosts()...))
	return pods{env, t, env.Lab.Hosts()[0]}
}

func (p pods) withT(t *testing.T) pods {
	p.t = t
	return p
}

// eventually waits until check returns "".
func (p pods) eventually(what string, check func(context.Context) (missing string)) {
	p.t.Helper()
	testenv.Eventually(p.t, podTimeout, what, check)
}

// expectServing waits until an app has count pods and all of them serve, and returns them.
func (p pods) expectServing(app string, count int) []corev1.Pod {
	p.t.Helper()
	return p.ExpectServing(p.t, podTimeout, app, count)
}

func (p pods) logsAndExec() {
	for _, pod := range p.expectServing("win-webserver", 2) {
		log, err := p.Logs(p.t.Context(), &pod, false)
		if want := fmt.Sprintf("%s listens on [::]:%d", pod.Name, testenv.WebserverPort); err != nil || !strings.Contains(log, want) {
			p.t.Errorf("log of %s: got %q (%v), want %q in it", pod.Name, log, err, want)
		}
		for _, test := range []struct {
			stdin   string
			command []string
			output  string
			code    int
		}{
			{"", []string{lab.WebserverProgram, "echo", "hello", "from", "a pod"}, "hello from a pod\n", 0},
			{"typed", []string{"webserver", "echo"}, "typed", 0},
			{"", []string{"webserver", "exit", "7"}, "", 7},
			{"", []string{"webserver", "hostname"}, pod.Name + "\n", 0},
			{"", []string{"webserver", "lookup", pod.Name}, pod.Status.PodIP + "\n", 0},
			{"", []string{"cmd.exe", "/c", "echo %POD_NAME% %COMPUTERNAME%"}, pod.Name + " " + strings.ToUpper(pod.Name[:15]) + "\r\n", 0},
		} {
			output, code, err := p.Exec(p.t.Context(), &pod, test.stdin, test.command...)
			if err != nil || output != test.output || code != test.code {
				p.t.Errorf("%q: got output %q and exit code %d (%v), want %q and %d", test.command, output, code, err, test.output, test.code)
			}
		}
	}
}

// failureRestarts makes a program exit with a nonzero exit code.
func (p pods) failureRestarts() {
	pod := p.expectServing("win-webserver", 2)[0]
	_, _ = testenv.Call(p.t.Context(), pod.Status.PodIP, "/exit?code=3") // the program exits before it answers
	p.expectRestarted(pod, 3)
}

// terminationRestarts terminates a container without containerd.
func (p pods) terminationRestarts() {
	pod := p.expectServing("win-webserver", 2)[1]
	id := strings.TrimPrefix(pod.Status.ContainerStatuses[0].ContainerID, "containerd://")
	all, err := p.host.Containers(p.t.Context())
	if err != nil || len(all) != 4 || !slices.Contains(all, id) {
		p.t.Fatalf("containers of the host: got %v (%v), want four with %s among them", all, err, id)
	}
	must(p.t, p.host.EndContainer(p.t.Context(), id))
	p.expectRestarted(pod, 1067)
	if err := p.host.EndContainer(p.t.Context(), id); err == nil {
		p.t.Error("a terminated container could be terminated again")
	}
}

// expectRestarted waits until a pod serves again after its container exited with a code.
func (p pods) expectRestarted(before corev1.Pod, code int32) {
	p.t.Helper()
	p.eventually(fmt.Sprintf("%s is restarted after exit code %d", before.Name, code), func(ctx context.Context) string {
		var pod corev1.Pod
		if err := p.Client.Get(ctx, client.ObjectKeyFromObject(&before), &pod); err != nil {
			return err.Error()
		}
		status, previous := pod.Status.ContainerStatuses[0], before.Status.ContainerStatuses[0]
		ended := status.LastTerminationState.Terminated
		if status.RestartCount != previous.RestartCount+1 || ended == nil || ended.ExitCode != code || ended.ContainerID != previous.ContainerID {
			return fmt.Sprintf("container status %+v", status)
		}
		return p.Serves(ctx, &pod)
	})
}

// surviveContainerd kills containerd, which WICD restarts.
func (p pods) surviveContainerd() {
	before := p.expectServing("win-webserver", 2)
	traffic := p.StartTraffic(p.t.Context(), "win-webserver", 50*time.Millisecond)
	previous, _, err := p.host.Service(p.t.Context(), "containerd")
	must(p.t, err)
	must(p.t, p.host.KillService(p.t.Context(), "containerd"))
	p.eventually("containerd is restarted", func(ctx context.Context) string {
		s, _, err := p.host.Service(ctx, "containerd")
		if err != nil || s.State != "running" || s.PID == previous.PID {
			return fmt.Sprintf("service %+v (%v)", s, err)
		}
		return ""
	})
	p.eventually("containerd has loaded its pods", func(ctx context.Context) string {
		if _, code, err := p.Exec(ctx, &before[0], "", "webserver", "exit", "9"); err != nil || code != 9 {
			return fmt.Sprintf("a command in pod %s: exit code %d (%v), want 9", before[0].Name, code, err)
		}
		return ""
	})
	for i, pod := range p.expectServing("win-webserver", 2) {
		if got, previous := pod.Status.ContainerStatuses[0], before[i].Status.ContainerStatuses[0]; got.ContainerID != previous.ContainerID {
			p.t.Errorf("container of %s: got %s, want the previous one, %s", pod.Name, got.ContainerID, previous.ContainerID)
		}
	}
	if answered, failures := traffic.Stop(); answered == 0 || len(failures) > 0 {
		p.t.Errorf("requests during the restart: %d answered, failures %q", answered, failures)
	}
}

// agnhost runs Kubernetes' own test program: it sends a request to one of the lab's pods, reports its name, and uses its grace period.
func (p pods) agnhost() {
	const grace, wantLog = int64(60), "Sleeping 2 seconds before terminating"
	must(p.t, p.AddAgnhost(p.t.Context()))
	_, err := p.WinWebserver(p.t.Context(), "agnhost", 1, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec = testenv.AgnhostPod("--delay-shutdown=2")
		d.Spec.Template.Spec.TerminationGracePeriodSeconds = new(grace)
		d.Spec.Template.Finalizers = []string{"lab.test/check-status"} // keeps the object until its status is checked
	})
	must(p.t, err)
	var pod corev1.Pod
	p.eventually("agnhost responds", func(ctx context.Context) string {
		list, err := p.Pods(ctx, "agnhost")
		if err != nil || len(list) != 1 || list[0].Status.PodIP == "" {
			return fmt.Sprintf("pods %v (%v), want one with an address", list, err)
		}
		pod = list[0]
		if response, err := testenv.CallPort(ctx, pod.Status.PodIP, testenv.AgnhostPort, "/echo?msg=hello"); err != nil || response != "hello" {
			return fmt.Sprintf("got response %q (error %v), want hello", response, err)
		}
		return ""
	})
	other := p.expectServing("win-webserver", 2)[0]
	dial := fmt.Sprintf("/dial?host=%s&port=%d&protocol=http&request=name", other.Status.PodIP, testenv.WebserverPort)
	if response, err := testenv.CallPort(p.t.Context(), pod.Status.PodIP, testenv.AgnhostPort, dial); err != nil || !strings.Contains(response, `{"responses":["`+other.Name) {
		p.t.Errorf("agnhost's request to pod %s: got %q (%v)", other.Name, response, err)
	}
	log := make(chan string, 1)
	go func() {
		text, err := p.Logs(p.t.Context(), &pod, true)
		log <- fmt.Sprint(text, err)
	}()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: "agnhost"}}
	must(p.t, p.Client.Delete(p.t.Context(), d))
	p.expectEnded(pod, 0)
	if text := <-log; !strings.Contains(text, wantLog) {
		p.t.Errorf("log of agnhost: got %q, want %q in it", text, wantLog)
	}
}

// stopping deletes pods with different reactions to their stop signal.
func (p pods) stopping() {
	tests := []struct {
		app, environment string
		image            string
		grace            int64
		code             int32
		log              string
	}{
		{"stops-at-once", "GRACE_SECONDS=0", lab.WebserverImage, 60, 0, "used 0 s of its grace period"},
		{"uses-grace-period", "GRACE_SECONDS=5", lab.WebserverImage, 60, 0, "used 5 s of its grace period"},
		{"gets-ctrl-break", "GRACE_SECONDS=0", lab.WebserverCtrlBreakImage, 60, 0, "received stop signal: interrupt"},
		{"ignores-signal", "IGNORE_STOP=1", lab.WebserverImage, 3, 1067, "received stop signal: terminated"},
	}
	for _, test := range tests {
		_, err := p.WinWebserver(p.t.Context(), test.app, 1, func(d *appsv1.Deployment) {
			d.Spec.Template.Spec = testenv.WebserverPod(test.environment)
			d.Spec.Template.Spec.Containers[0].Image = test.image
			d.Spec.Template.Spec.TerminationGracePeriodSeconds = &test.grace
			d.Spec.Template.Finalizers = []string{"lab.test/check-status"} // keeps the object until its status is checked
		})
		must(p.t, err)
	}
	for _, test := range tests {
		pod := p.expectServing(test.app, 1)[0]
		log := make(chan string, 1)
		go func() {
			text, err := p.Logs(p.t.Context(), &pod, true)
			log <- fmt.Sprint(text, err)
		}()
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: test.app}}
		must(p.t, p.Client.Delete(p.t.Context(), d))
		p.expectEnded(pod, test.code)
		if text := <-log; !strings.Contains(text, test.log) {
			p.t.Errorf("log of %s: got %q, want %q in it", test.app, text, test.log)
		}
	}
}

// expectEnded waits until a deleted pod has exited with a code, and removes its finalizer.
func (p pods) expectEnded(pod corev1.Pod, code int32) {
	p.t.Helper()
	key := client.ObjectKeyFromObject(&pod)
	p.eventually(fmt.Sprintf("%s exits with code %d", pod.Name, code), func(ctx context.Context) string {
		if err := p.Client.Get(ctx, key, &pod); err != nil {
			return err.Error()
		}
		ended := pod.Status.ContainerStatuses[0].State.Terminated
		if ended == nil || ended.ExitCode != code {
			return fmt.Sprintf("container state %+v", pod.Status.ContainerStatuses[0].State)
		}
		return ""
	})
	before := pod.DeepCopy()
	pod.Finalizers = nil
	must(p.t, p.Client.Patch(p.t.Context(), &pod, client.MergeFrom(before)))
}

// recover restarts the host and checks that its pods serve again, without objects of the previous boot.
func (p pods) recover(restart func(context.Context) error) {
	before := p.expectServing("win-webserver", 2)
	must(p.t, restart(p.t.Context()))
	p.eventually("the same pods serve from new containers", func(ctx context.Context) string {
		now, err := p.Pods(ctx, "win-webserver")
		if err != nil || len(now) != len(before) {
			return fmt.Sprintf("%d pods (%v), want %d", len(now), err, len(before))
		}
		for i := range now {
			if now[i].UID != before[i].UID || now[i].Status.ContainerStatuses[0].ContainerID == before[i].Status.ContainerStatuses[0].ContainerID {
				return fmt.Sprintf("pod %s still has container %s", now[i].Name, now[i].Status.ContainerStatuses[0].ContainerID)
			}
			if missing := p.Serves(ctx, &now[i]); missing != "" {
				return missing
			}
		}
		return ""
	})
	p.eventually("the host has the objects of two pods", func(ctx context.Context) string { return p.expectOnHost(ctx, 2) })
}

func (p pods) cleanUp() {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "win-webserver"}}
	must(p.t, p.Client.Delete(p.t.Context(), d))
	p.eventually("all objects of pods are removed", func(ctx context.Context) string { return p.expectOnHost(ctx, 0) })
}

// expectOnHost describes the first difference from a host with count pods, or "" if there is none.
func (p pods) expectOnHost(ctx context.Context, count int) string {
	containers, err := p.host.Containers(ctx)
	if err != nil || len(containers) != 2*count {
		return fmt.Sprintf("the host has containers %v (%v), want %d", containers, err, 2*count)
	}
	processes, err := p.host.Processes()
	for program, want := range map[string]int{"webserver.exe": count, "pause.exe": count, "containerd-shim-runhcs-v1.exe": count} {
		if got := strings.Count(strings.Join(processes, "\n"), program); got != want || err != nil {
			return fmt.Sprintf("the host has %d processes of %s (%v), want %d", got, program, err, want)
		}
	}
	for kind, want := range map[hns.Kind]int{hns.Endpoint: count, hns.Namespace: count + 1} { // one is the host's own
		if objects, err := p.host.HNS().List(kind); err != nil || len(objects) != want {
			return fmt.Sprintf("the host has objects of kind %s %v (%v), want %d", kind, objects, err, want)
		}
	}
	addresses, err := p.host.PodAddresses(ctx)
	if err != nil || len(addresses) != count {
		return fmt.Sprintf("the host has addresses %v (%v), want %d", addresses, err, count)
	}
	return ""
}
