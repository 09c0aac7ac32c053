//go:build linux

package testenv

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/kubectl/pkg/util/podutils"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/lab"
)

// WebserverPort is the port of WebserverPod.
const WebserverPort = 8080

// podCNIConfig is the CNI configuration of NetworkLab: win-overlay on the lab's network, with addresses of host-local.
const podCNIConfig = `{
  "cniVersion": "0.3.1",
  "name": "lab",
  "type": "win-overlay",
  "apiVersion": 2,
  "ipam": {"type": "host-local", "subnet": "{{.PodCIDR}}"},
  "dns": {"nameservers": ["{{.ClusterDNS}}"]}
}
`

// RunsPods reports whether the hosts run pods.
func (env *Env) RunsPods() bool { return env.pods }

// startImages starts the registry with the images of pods, and adds it to the mirrors of WindowsConfig.
func (env *Env) startImages(ctx context.Context) error {
	registry, err := env.Lab.StartPodImages(ctx)
	if err != nil {
		return fmt.Errorf("serving the images of pods: %w", err)
	}
	env.images = registry
	for _, source := range lab.ImageSources() {
		env.mirrors = append(env.mirrors, v1alpha1.RegistryMirrors{
			Source: source, MirrorSourcePolicy: v1alpha1.NeverContactSource,
			Mirrors: []v1alpha1.RegistryMirror{{Location: registry.Host, Insecure: true}},
		})
	}
	return nil
}

// PodImages returns the registry with the images of pods. WindowsConfig has it as the mirror of their registries.
func (env *Env) PodImages() *lab.Registry { return env.images }

// AgnhostPort is the port of AgnhostPod, of TCP and UDP.
const AgnhostPort = 8090

// AgnhostPod returns a pod with Kubernetes' test program, a web server that can also send requests ("agnhost netexec --help").
// AddAgnhost adds its image.
func AgnhostPod(flags ...string) corev1.PodSpec {
	spec := WebserverPod()
	c := &spec.Containers[0]
	c.Name, c.Image = "agnhost", lab.AgnhostImage
	c.Args = append([]string{"netexec", fmt.Sprintf("--http-port=%d", AgnhostPort), fmt.Sprintf("--udp-port=%d", AgnhostPort)}, flags...)
	c.Ports[0].ContainerPort, c.ReadinessProbe.TCPSocket.Port = AgnhostPort, intstr.FromInt32(AgnhostPort)
	return spec
}

// AddAgnhost adds the image of AgnhostPod to the registry of pods.
func (env *Env) AddAgnhost(ctx context.Context) error { return env.Lab.AddAgnhost(ctx, env.images) }

// WebserverPod returns a pod for a Windows node that answers HTTP requests on WebserverPort with its name. It runs
// lab/windows/containers/webserver with the given environment variables, such as "GRACE_SECONDS=40".
func WebserverPod(environment ...string) corev1.PodSpec {
	name := corev1.EnvVar{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}
	container := corev1.Container{
		Name: "web", Image: lab.WebserverImage, Env: []corev1.EnvVar{name},
		Ports: []corev1.ContainerPort{{ContainerPort: WebserverPort}},
		ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
			TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(WebserverPort)},
		}},
	}
	for _, variable := range environment {
		name, value, _ := strings.Cut(variable, "=")
		container.Env = append(container.Env, corev1.EnvVar{Name: name, Value: value})
	}
	automount := false
	return corev1.PodSpec{
		OS: &corev1.PodOS{Name: corev1.Windows}, NodeSelector: map[string]string{corev1.LabelOSStable: "windows"},
		Tolerations: []corev1.Toleration{{Key: api.TaintKey, Value: api.TaintValue, Effect: corev1.TaintEffectNoSchedule}},
		Containers:  []corev1.Container{container}, AutomountServiceAccountToken: &automount,
	}
}

// WinWebserver creates a Deployment of WebserverPods in namespace default, whose pods have its name as label app. change, if not nil,
// modifies the Deployment first.
func (env *Env) WinWebserver(ctx context.Context, name string, replicas int32, change func(*appsv1.Deployment)) (*appsv1.Deployment, error) {
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name, Labels: labels}}
	d.Spec = appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: WebserverPod()},
	}
	if change != nil {
		change(d)
	}
	if err := env.Client.Create(ctx, d); err != nil {
		return nil, fmt.Errorf("creating Deployment %s: %w", name, err)
	}
	return d, nil
}

// Pods returns the pods with label app, sorted by name, those that are being deleted last.
func (env *Env) Pods(ctx context.Context, app string) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := env.Client.List(ctx, &list, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{"app": app}); err != nil {
		return nil, fmt.Errorf("listing the pods of %s: %w", app, err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int {
		leaving := func(p corev1.Pod) int {
			if p.DeletionTimestamp != nil {
				return 1
			}
			return 0
		}
		return cmp.Or(leaving(a)-leaving(b), strings.Compare(a.Name, b.Name))
	})
	return list.Items, nil
}

// Serves describes why a pod does not serve, or "" if it is Ready and answers at its address with its name.
func (env *Env) Serves(ctx context.Context, p *corev1.Pod) (missing string) {
	if !isReady(p) {
		return fmt.Sprintf("pod %s is %s and not Ready%s", p.Name, p.Status.Phase, waitingFor(p))
	}
	answer, err := Call(ctx, p.Status.PodIP, "/")
	if err != nil {
		return fmt.Sprintf("pod %s does not answer: %v", p.Name, err)
	}
	if answer != p.Name {
		return fmt.Sprintf("pod %s answers %q", p.Name, answer)
	}
	return ""
}

func isReady(p *corev1.Pod) bool {
	return p.Status.PodIP != "" && podutils.IsPodReady(p)
}

func waitingFor(p *corev1.Pod) string {
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Waiting != nil {
			return fmt.Sprintf(": %s %s", c.State.Waiting.Reason, c.State.Waiting.Message)
		}
	}
	return ""
}

// Call sends a request to a WebserverPod at its address, and returns the response. Each call opens a new connection.
func Call(ctx context.Context, podIP, path string) (string, error) {
	return CallPort(ctx, podIP, WebserverPort, path)
}

// CallPort is like Call with another port.
func CallPort(ctx context.Context, podIP string, port int, path string) (string, error) {
	const timeout = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	url := "http://" + net.JoinHostPort(podIP, fmt.Sprint(port)) + path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return strings.TrimSpace(string(text)), err
}
