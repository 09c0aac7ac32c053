package fleetstatus_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
)

// TestCausesOfPodsThatDoNotRun finds causes in messages of containerd and the kubelet.
func TestCausesOfPodsThatDoNotRun(t *testing.T) {
	const get = `failed to resolve reference "example.com/web:1": failed to do request: Head "https://`
	for name, test := range map[string]struct{ reason, message, want string }{
		"another build":       {"ErrImagePull", "no match for platform in manifest: not found", api.EventImageForAnotherBuild},
		"at its start":        {"RunContainerError", "hcs::System::Start: The container operating system does not match the host operating system. (0xc0370101)", api.EventImageForAnotherBuild},
		"a proxy":             {"ImagePullBackOff", get + `example.com/v2/": proxyconnect tcp: dial tcp 10.0.0.1:3128: connectex: refused`, api.EventProxyUnreachable},
		"a mirror":            {"ImagePullBackOff", get + `127.0.0.1:10280/v2/web/manifests/1?ns=example.com": 403 Forbidden: mirror.example.com: connection refused`, api.EventMirrorUnavailable},
		"an unknown image":    {"ErrImagePull", "127.0.0.1:10280: 404: " + mirrors.NotFound, api.EventMirrorUnavailable},
		"credentials":         {"ErrImagePull", "127.0.0.1:10280: 403 Forbidden: " + mirrors.RefusesCredentials, api.EventRegistryDenied},
		"DNS":                 {"ErrImagePull", get + `example.com/v2/": dial tcp: lookup example.com: no such host`, api.EventRegistryUnreachable},
		"something else":      {"CreateContainerConfigError", `secret "a" not found`, "CreateContainerConfigError"},
		"nothing is known":    {"ErrImagePull", "strange", "ErrImagePull"},
		"a password":          {"ErrImagePull", get + `example.com/v2/": proxyconnect tcp: dial http://user:hunter2@proxy.test:3128: refused`, api.EventProxyUnreachable},
		"it is being created": {"ContainerCreating", "", "ContainerCreating"},
		"an init container":   {"PodInitializing", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"}, Spec: corev1.PodSpec{NodeName: "win-1"}}
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Image: "example.com/web:1", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: test.reason, Message: test.message}}}}
			f := fleetstatus.Of(fleetstatus.Input{
				Now: now(), Instances: []v1alpha1.WindowsInstance{instance("win-1", api.ReasonReady, "")}, Nodes: []corev1.Node{node("win-1")}, Pods: []corev1.Pod{pod},
			})
			pods := f.Hosts[0].Pods
			switch {
			case test.want == "" && len(pods) == 0:
			case len(pods) != 1 || pods[0].Reason != test.want || pods[0].Remedy == "":
				t.Errorf("the pods are %+v, want reason %s", pods, test.want)
			case strings.Contains(pods[0].Message, "hunter2"):
				t.Errorf("a password is told: %s", pods[0].Message)
			case f.Hosts[0].State != fleetstatus.Ready:
				t.Errorf("the host is %s because of a pod", f.Hosts[0].State)
			}
		})
	}
}
