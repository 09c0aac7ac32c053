//go:build linux

package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// kubernetesWebServer checks the first example of Kubernetes' documentation with the document's own steps, except ping, which the lab lacks.
func (x examplesTest) kubernetesWebServer() {
	const answer = "Windows Container Web Server"
	pods := x.readyPods("win-webserver", 2)
	var service corev1.Service
	x.get(types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: "win-webserver"}, &service)
	urls := []string{"http://" + service.Spec.ClusterIP, "http://win-webserver", "http://win-webserver.default.svc.cluster.local"}
	for i := range pods {
		x.expectNode(&pods[i], windowsbuild.Server2019, "windows2019")
		urls = append(urls, "http://"+pods[i].Status.PodIP)
		if text, err := testenv.CallPort(x.t.Context(), pods[i].Status.PodIP, 80, "/"); err != nil || !strings.Contains(text, answer) {
			x.t.Errorf("answer of %s from outside of the nodes: got %q (%v), want %q in it", pods[i].Name, text, err, answer)
		}
	}
	for i := range pods {
		for _, url := range urls {
			x.eventually(fmt.Sprintf("%s answers in %s", url, pods[i].Name), func(ctx context.Context) string {
				output, code, err := x.Exec(ctx, &pods[i], "", "webserver", "get", url)
				if err != nil || code != 0 || !strings.Contains(output, answer) {
					return fmt.Sprintf("code %d, %v: %s", code, err, output)
				}
				return ""
			})
		}
	}
	for _, h := range x.Lab.Hosts() {
		x.eventually("the NodePort answers at "+h.Name(), func(ctx context.Context) string {
			text, err := testenv.CallPort(ctx, h.Address(), int(service.Spec.Ports[0].NodePort), "/")
			if err != nil || !strings.Contains(text, answer) {
				return text + ": " + errorText(err)
			}
			return ""
		})
	}
	x.expectOutbound(&pods[0])
}

// expectOutbound connects to a server outside of the cluster from a pod.
func (x examplesTest) expectOutbound(pod *corev1.Pod) {
	x.t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(x.Lab.Address(), "0"))
	must(x.t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "outside") })}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	if text := x.output(pod, "webserver", "get", "http://"+listener.Addr().String()); text != "outside" {
		x.t.Errorf("answer of a server outside of the cluster: got %q, want %q", text, "outside")
	}
}

// kubernetesRuntimeClass checks the second example.
func (x examplesTest) kubernetesRuntimeClass() {
	pod := x.readyPods("iis-2019", 1)[0]
	x.expectNode(&pod, windowsbuild.Server2019, "windows-2019")
	var service corev1.Service
	x.get(types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: "iis"}, &service)
	from := x.readyPods("win-webserver", 2)[0]
	x.eventually("the Service answers", func(ctx context.Context) string {
		output, code, err := x.Exec(ctx, &from, "", "webserver", "get", "http://"+service.Spec.ClusterIP)
		if err != nil || code != 0 || strings.TrimSpace(output) != pod.Name {
			return fmt.Sprintf("code %d, %v: %s", code, err, output)
		}
		return ""
	})
}

// expectNode checks the RuntimeClass of a pod, and the build of its node.
func (x examplesTest) expectNode(pod *corev1.Pod, build windowsbuild.Build, class string) {
	x.t.Helper()
	if got := pod.Spec.RuntimeClassName; got == nil || *got != class {
		x.t.Errorf("RuntimeClass of pod %s: got %v, want %s", pod.Name, got, class)
	}
	if got := x.node(pod.Spec.NodeName).Labels[corev1.LabelWindowsBuild]; got != build.Label() {
		x.t.Errorf("build of the node of pod %s: got %s, want %s", pod.Name, got, build.Label())
	}
}

// generations creates pods that set only os.name, with images of five generations.
func (x examplesTest) generations() {
	const repository = "generations"
	const server23H2 windowsbuild.Build = 25398
	all := []struct {
		name, tag string
		image     []windowsbuild.Build
		node      windowsbuild.Build
		class     string
	}{
		{"gen-2019", "nanoserver-1809", []windowsbuild.Build{windowsbuild.Server2019}, windowsbuild.Server2019, "windows2019"},
		{"gen-2022", "ltsc2022", []windowsbuild.Build{windowsbuild.Server2022}, windowsbuild.Server2022, "windows2022"},
		{"gen-23h2", "23H2", []windowsbuild.Build{server23H2}, windowsbuild.Server2025, "windows2025"}, // the default
		{"gen-2025", "windowsservercore-ltsc2025", []windowsbuild.Build{windowsbuild.Server2025}, windowsbuild.Server2025, "windows2025"},
		{"gen-any", "1.0", builds(), windowsbuild.Server2025, "windows2025"}, // the default
	}
	for _, g := range all {
		if _, err := x.Lab.PushWebserver(x.t.Context(), x.PodImages(), repository, g.tag, g.image...); err != nil {
			x.t.Fatal(err)
		}
		x.create(generationPod(g.name, "lab.test/"+repository+":"+g.tag, nil))
	}
	for _, g := range all {
		pod := x.ExpectServing(x.t, waitTimeout, g.name, 1)[0]
		x.expectNode(&pod, g.node, g.class)
	}
	x.configure(func(s *v1alpha1.WindowsConfigSpec) { s.RuntimeClasses.NewerHosts = true })
	newest := x.Lab.Hosts()[2].Name()
	newer := func() *corev1.Pod {
		pod := generationPod("gen-newer", "lab.test/"+repository+":ltsc2022", map[string]string{corev1.LabelHostname: newest})
		pod.Spec.RuntimeClassName = new("windows2022") // no class is assigned to pods that select a node
		return pod
	}
	// The API server assigns the class from its cache.
	x.eventually("class windows2022 includes newer hosts", func(ctx context.Context) string {
		pod := newer()
		err := x.Client.Create(ctx, pod, client.DryRunAll)
		if err == nil && pod.Spec.NodeSelector[api.LabelRunsPrefix+"windows2022"] == "" {
			err = fmt.Errorf("got node selector %v", pod.Spec.NodeSelector)
		}
		return errorText(err)
	})
	x.create(newer())
	pod := x.ExpectServing(x.t, waitTimeout, "gen-newer", 1)[0]
	x.expectNode(&pod, windowsbuild.Server2025, "windows2022")
}

// generationPod returns a pod of the web server that requests Windows only through os.name.
func generationPod(name, image string, selector map[string]string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name, Labels: map[string]string{"app": name}}, Spec: testenv.WebserverPod(),
	}
	pod.Spec.NodeSelector, pod.Spec.Tolerations = selector, nil
	pod.Spec.Containers[0].Image = image
	return pod
}
