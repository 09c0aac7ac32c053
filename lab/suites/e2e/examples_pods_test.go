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
	if text := x.prints(pod, "cmd", "/c", `type C:\started.txt`); text != "started" {
		x.t.Errorf("postStart wrote %q", text)
	}
	began := time.Now()
	x.remove(pod)
	x.expectGone(client.ObjectKeyFromObject(pod), &corev1.Pod{})
	if took := time.Since(began); took < 5*time.Second {
		x.t.Errorf("the pod ended after %v, and did not wait for preStop", took)
	}
}

func (x examplesTest) probes() {
	pod := x.ready("probes")
	x.prints(pod, "cmd", "/c", `echo x> C:\failed.txt`)
	x.eventually("the container was restarted", func(ctx context.Context) string {
		if err := x.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err.Error()
		}
		if pod.Status.ContainerStatuses[0].RestartCount == 0 {
			return "it was not"
		}
		return notReadyPod(pod)
	})
}

// namedPipe opens the pipe. On Wine, programs of all pods share the host's pipes, so the test also checks that the pod requested it.
func (x examplesTest) namedPipe() {
	pod := x.ready("pipe")
	x.prints(pod, "webserver", "open", `\\.\pipe\containerd-containerd`)
	if !x.noted(pod, "HcsCreateComputeSystem", "MappedPipes", `\\\\.\\pipe\\containerd-containerd`) {
		x.t.Error("no container was created with the pipe")
	}
}

func (x examplesTest) token() {
	token := x.prints(x.ready("token"), "cmd", "/c", `type C:\tokens\vault`)
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		x.t.Fatalf("the token has %d parts", len(parts))
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
		x.t.Errorf("the token says %s (%v)", payload, err)
	}
}

func (x examplesTest) config() {
	pod := x.ready("shop")
	for command, want := range map[string]string{
		"echo %CURRENCY% %PASSWORD%": "EUR not-this-one",
		`type C:\config\shop.ini`:    "[shop]\nname = Example",
		`type C:\secrets\password`:   "not-this-one",
	} {
		if got := strings.ReplaceAll(x.prints(pod, "cmd", "/c", command), "\r\n", "\n"); got != want {
			x.t.Errorf("%s prints %q, want %q", command, got, want)
		}
	}
}

func (x examplesTest) statefulSet() {
	pods := x.readyPods("ledger", 2)
	for _, of := range []string{"ledger-0", "ledger-1"} {
		x.eventually(of+" answers by its name", func(ctx context.Context) string {
			output, _, err := x.Exec(ctx, &pods[1], "", "webserver", "get", "http://"+of+".ledger.default.svc.cluster.local")
			if strings.TrimSpace(output) != of {
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

// user checks that the container services are called with the account. In the lab, all programs run as one user.
func (x examplesTest) user() {
	pod := x.ready("user")
	if !x.noted(pod, "HcsCreateProcess", `"User":"ContainerUser"`, "pause") {
		x.t.Error("no process was created for ContainerUser")
	}
}

// hostProcess checks the values that the DaemonSet sets on each host. Its containers then wait, and are not restarted.
func (x examplesTest) hostProcess() {
	x.eventually("all hosts have the setting", func(ctx context.Context) string {
		for _, h := range x.Lab.Hosts() {
			v, _, err := h.ReadRegistry(ctx, `HKLM\SYSTEM\CurrentControlSet\Control\FileSystem`, "LongPathsEnabled")
			if err != nil || v.Type != "REG_DWORD" || v.Number != 1 {
				return fmt.Sprintf("%s has %+v (%v)", h.Name(), v, err)
			}
		}
		return ""
	})
	x.eventually("all its pods wait", func(ctx context.Context) string {
		var pods corev1.PodList
		if err := x.Client.List(ctx, &pods, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{"app": "long-paths"}); err != nil {
			return err.Error()
		}
		if len(pods.Items) != len(x.Lab.Hosts()) {
			return fmt.Sprintf("there are %d", len(pods.Items))
		}
		for _, pod := range pods.Items {
			if missing := notReadyPod(&pod); missing != "" || pod.Status.ContainerStatuses[0].RestartCount > 0 {
				return fmt.Sprintf("%s: %s %+v", pod.Name, missing, pod.Status.ContainerStatuses)
			}
		}
		return ""
	})
}

// logMonitor has the application write to a file. The image of the lab has a stand-in for LogMonitor.
func (x examplesTest) logMonitor() {
	pod := x.ready("logs")
	x.prints(pod, "cmd", "/c", `mkdir C:\inetpub\logs& echo a line of the application> C:\inetpub\logs\app.log`)
	x.eventually("the log of the pod has the line", func(ctx context.Context) string {
		text, err := x.Logs(ctx, pod, false)
		if err != nil || !strings.Contains(text, "a line of the application") {
			return text + ": " + errorText(err)
		}
		return ""
	})
}

// graceful deletes a pod. Its program gets the stop signal, and exits long before it would be killed.
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
		x.t.Errorf("it took %v", took)
	}
	if text := <-log; !strings.Contains(text, "graceful received stop signal") {
		x.t.Errorf("its log is %q", text)
	}
}

// usage runs the commands of documents that need metrics-server, for the node of a pod.
func (x examplesTest) usage() {
	pod := x.readyPods("front", 1)[0]
	x.shell.Replace = map[string]string{"<node>": pod.Spec.NodeName}
	of := regexp.MustCompile(`(?ms)^` + pod.Spec.NodeName + ` +[1-9]\d*m .*^default +` + pod.Name + ` +\d+m +[1-9]\d*Mi *$`)
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
				if err != nil || !of.MatchString(printed) {
					return printed + ": " + errorText(err)
				}
				return ""
			})
		}
	}
}

// autoscaler keeps a pod busy. Its Deployment then gets its maximum of pods, while the autoscaler wants more.
func (x examplesTest) autoscaler() {
	idle := x.readyPods("front", 1)
	at := client.ObjectKeyFromObject(&idle[0])
	at.Name = "front"
	x.eventually("the autoscaler computes with the processor time of one pod", func(ctx context.Context) string {
		return x.scaled(ctx, at, 1, autoscalingv2.ScalingActive, "ValidMetricFound")
	})
	ctx, stop := context.WithCancel(x.t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for ctx.Err() == nil {
			_, _, _ = x.Exec(ctx, &idle[0], "", "webserver", "spin", "20") // a failure means no load, which the autoscaler shows
		}
	}()
	x.eventually("the autoscaler wants more pods than it may have", func(ctx context.Context) string {
		return x.scaled(ctx, at, 3, autoscalingv2.ScalingLimited, "TooManyReplicas")
	})
	x.readyPods("front", 3)
	stop()
	<-stopped
}

// scaled returns what is missing until an autoscaler has set this number of pods and has a condition.
func (x examplesTest) scaled(ctx context.Context, at client.ObjectKey, replicas int32, condition autoscalingv2.HorizontalPodAutoscalerConditionType, reason string) string {
	var hpa autoscalingv2.HorizontalPodAutoscaler
	if err := x.Client.Get(ctx, at, &hpa); err != nil {
		return err.Error()
	}
	ok := slices.ContainsFunc(hpa.Status.Conditions, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool {
		return c.Type == condition && c.Status == corev1.ConditionTrue && c.Reason == reason
	})
	if !ok || hpa.Status.DesiredReplicas != replicas {
		return fmt.Sprintf("its autoscaler says %+v", hpa.Status)
	}
	return ""
}
