//go:build linux

package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/internal/testing/documents"
)

func (x examplesTest) hooks() {
	pod := x.ready("hooks")
	if text := x.output(pod, "cmd", "/c", `type C:\started.txt`); text != "started" {
		x.t.Errorf("postStart wrote %q", text)
	}
	began := time.Now()
	x.remove(pod)
	x.expectGone(client.ObjectKeyFromObject(pod), &corev1.Pod{})
	if took := time.Since(began); took < 5*time.Second {
		x.t.Errorf("the pod ended after %v, before preStop was done", took)
	}
}

func (x examplesTest) probes() {
	pod := x.ready("probes")
	x.output(pod, "cmd", "/c", `echo x> C:\failed.txt`)
	x.eventually("the container was restarted", func(ctx context.Context) string {
		if err := x.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err.Error()
		}
		if pod.Status.ContainerStatuses[0].RestartCount == 0 {
			return "restart count is 0"
		}
		return notReadyPod(pod)
	})
}

// namedPipe opens the pipe. On Wine, programs of all pods share the host's pipes, so it also checks that the container was created with it.
func (x examplesTest) namedPipe() {
	pod := x.ready("pipe")
	x.output(pod, "webserver", "open", `\\.\pipe\containerd-containerd`)
	if !x.calledHostCompute(pod, "HcsCreateComputeSystem", "MappedPipes", `\\\\.\\pipe\\containerd-containerd`) {
		x.t.Error("no container was created with the pipe")
	}
}

func (x examplesTest) token() {
	token := x.output(x.ready("token"), "cmd", "/c", `type C:\tokens\vault`)
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		x.t.Fatalf("the token has %d parts, want 3", len(parts))
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Audience []string `json:"aud"`
		Subject  string   `json:"sub"`
	}
	if err == nil {
		err = json.Unmarshal(payload, &claims)
	}
	if err != nil || !slices.Equal(claims.Audience, []string{"vault.example.com"}) || claims.Subject != "system:serviceaccount:default:default" {
		x.t.Errorf("got token payload %s (%v)", payload, err)
	}
}

func (x examplesTest) config() {
	pod := x.ready("shop")
	for command, want := range map[string]string{
		"echo %CURRENCY% %PASSWORD%": "EUR not-this-one",
		`type C:\config\shop.ini`:    "[shop]\nname = Example",
		`type C:\secrets\password`:   "not-this-one",
	} {
		if got := strings.ReplaceAll(x.output(pod, "cmd", "/c", command), "\r\n", "\n"); got != want {
			x.t.Errorf("%s prints %q, want %q", command, got, want)
		}
	}
}

func (x examplesTest) statefulSet() {
	pods := x.readyPods("ledger", 2)
	for _, name := range []string{"ledger-0", "ledger-1"} {
		x.eventually(name+" answers at its DNS name", func(ctx context.Context) string {
			output, _, err := x.Exec(ctx, &pods[1], "", "webserver", "get", "http://"+name+".ledger.default.svc.cluster.local")
			if strings.TrimSpace(output) != name {
				return output + ": " + errorText(err)
			}
			return ""
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// user checks that the container services are called with the user, because in the lab all programs run as the same user.
func (x examplesTest) user() {
	pod := x.ready("user")
	if !x.calledHostCompute(pod, "HcsCreateProcess", `"User":"ContainerUser"`, "pause") {
		x.t.Error("no process was created for ContainerUser")
	}
}

// hostProcess checks the registry value that the DaemonSet sets on each host. Its containers then wait without restarts.
func (x examplesTest) hostProcess() {
	x.eventually("all hosts have the setting", func(ctx context.Context) string {
		for _, h := range x.Lab.Hosts() {
			v, _, err := h.ReadRegistry(ctx, `HKLM\SYSTEM\CurrentControlSet\Control\FileSystem`, "LongPathsEnabled")
			if err != nil || v.Type != "REG_DWORD" || v.Number != 1 {
				return fmt.Sprintf("%s: got %+v (%v)", h.Name(), v, err)
			}
		}
		return ""
	})
	x.eventually("all pods of the DaemonSet are Ready without restarts", func(ctx context.Context) string {
		var pods corev1.PodList
		if err := x.Client.List(ctx, &pods, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{"app": "long-paths"}); err != nil {
			return err.Error()
		}
		if len(pods.Items) != len(x.Lab.Hosts()) {
			return fmt.Sprintf("got %d pods, want %d", len(pods.Items), len(x.Lab.Hosts()))
		}
		for _, pod := range pods.Items {
			if missing := notReadyPod(&pod); missing != "" || pod.Status.ContainerStatuses[0].RestartCount > 0 {
				return fmt.Sprintf("%s: %s %+v", pod.Name, missing, pod.Status.ContainerStatuses)
			}
		}
		return ""
	})
}

// logMonitor writes to the application's log file. The lab's image has a stand-in for LogMonitor.
func (x examplesTest) logMonitor() {
	pod := x.ready("logs")
	x.output(pod, "cmd", "/c", `mkdir C:\inetpub\logs& echo a line of the application> C:\inetpub\logs\app.log`)
	x.eventually("the log of the pod has the line", func(ctx context.Context) string {
		text, err := x.Logs(ctx, pod, false)
		if err != nil || !strings.Contains(text, "a line of the application") {
			return text + ": " + errorText(err)
		}
		return ""
	})
}

// graceful deletes a pod. Its program must receive the stop signal and exit before the end of its grace period.
func (x examplesTest) graceful() {
	pod := x.ready("graceful")
	log := make(chan string, 1)
	go func() {
		text, _ := x.Logs(x.t.Context(), pod, true)
		log <- text
	}()
	began := time.Now()
	x.remove(pod)
	x.expectGone(client.ObjectKeyFromObject(pod), &corev1.Pod{})
	if took := time.Since(began); took > 60*time.Second {
		x.t.Errorf("the pod was deleted after %v, want at most a minute", took)
	}
	if text := <-log; !strings.Contains(text, "graceful received stop signal") {
		x.t.Errorf("got log %q", text)
	}
}

// usage runs the commands of documents that need metrics-server, for the node of a pod.
func (x examplesTest) usage() {
	pod := x.readyPods("front", 1)[0]
	x.shell.Replace = map[string]string{"<node>": pod.Spec.NodeName}
	want := regexp.MustCompile(`(?ms)^` + pod.Spec.NodeName + ` +[1-9]\d*m .*^default +` + pod.Name + ` +\d+m +[1-9]\d*Mi *$`)
	for _, s := range documents.Usage().Steps {
		text, err := os.ReadFile("../../../" + s.Document)
		must(x.t, err)
		blocks, err := documents.Blocks(s.Document, string(text))
		must(x.t, err)
		for _, b := range blocks {
			if !s.Of(b) || !b.IsCode() || b.NotRun != "" {
				continue
			}
			x.eventually(b.String()+" prints the usage of the node and the pod", func(ctx context.Context) string {
				printed, err := x.shell.Output(ctx, x.dir, b.Text)
				if err != nil || !want.MatchString(printed) {
					return printed + ": " + errorText(err)
				}
				return ""
			})
		}
	}
}

// autoscaler keeps a pod busy, so that the autoscaler scales its Deployment to the maximum.
func (x examplesTest) autoscaler() {
	idle := x.readyPods("front", 1)
	at := client.ObjectKeyFromObject(&idle[0])
	at.Name = "front"
	x.eventually("the autoscaler reads the processor time of one pod", func(ctx context.Context) string {
		return x.scaled(ctx, at, 1, autoscalingv2.ScalingActive, "ValidMetricFound")
	})
	ctx, stop := context.WithCancel(x.t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for ctx.Err() == nil {
			_, _, _ = x.Exec(ctx, &idle[0], "", "webserver", "spin", "20") // a failure shows as missing load
		}
	}()
	x.eventually("the autoscaler is limited by its maximum", func(ctx context.Context) string {
		return x.scaled(ctx, at, 3, autoscalingv2.ScalingLimited, "TooManyReplicas")
	})
	x.readyPods("front", 3)
	stop()
	<-stopped
}

// scaled returns what is missing until an autoscaler wants this number of pods and has a condition.
func (x examplesTest) scaled(ctx context.Context, at client.ObjectKey, replicas int32, condition autoscalingv2.HorizontalPodAutoscalerConditionType, reason string) string {
	var hpa autoscalingv2.HorizontalPodAutoscaler
	if err := x.Client.Get(ctx, at, &hpa); err != nil {
		return err.Error()
	}
	ok := slices.ContainsFunc(hpa.Status.Conditions, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool {
		return c.Type == condition && c.Status == corev1.ConditionTrue && c.Reason == reason
	})
	if !ok || hpa.Status.DesiredReplicas != replicas {
		return fmt.Sprintf("got status %+v", hpa.Status)
	}
	return ""
}
