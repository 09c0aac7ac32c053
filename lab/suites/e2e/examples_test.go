//go:build linux

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
	"github.com/windows-machine-config/wmco/internal/testing/documents"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/cluster/manifest"
	"github.com/windows-machine-config/wmco/lab/testenv"
	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
)

// TestExamples applies docs/examples.md unchanged, in a cluster with nodes of three versions of Windows. Mirrors of the lab replace the registries that
// the document names.
func TestExamples(t *testing.T) {
	needs(t, lab.CanBalance(), lab.CanRunRegistries(), lab.CanRunLinuxNodes())
	x := openExamples(t)
	x.joinAll()
	must(t, x.StartDNS(t.Context()))
	must(t, x.StartMetricsServer(t.Context()))
	pods := []string{
		"Graceful termination", "Lifecycle hooks", "Probes", "Named pipes", "Tokens of service accounts", "ConfigMaps and Secrets", "StatefulSet",
		"Job and CronJob", "HorizontalPodAutoscaler", "User of a container", "HostProcess containers", "Logs of Windows", "Kubernetes' own examples",
	}
	for _, heading := range pods {
		x.apply(heading)
	}
	t.Run("LifecycleHooksRun", func(t *testing.T) { x.withT(t).hooks() })
	t.Run("LivenessProbeRestartsContainer", func(t *testing.T) { x.withT(t).probes() })
	t.Run("NamedPipeIsMounted", func(t *testing.T) { x.withT(t).namedPipe() })
	t.Run("TokenHasItsAudience", func(t *testing.T) { x.withT(t).token() })
	t.Run("ConfigMapsAndSecretsAreMounted", func(t *testing.T) { x.withT(t).config() })
	t.Run("StatefulSetPodsHaveDNSNames", func(t *testing.T) { x.withT(t).statefulSet() })
	t.Run("JobsComplete", func(t *testing.T) { x.withT(t).commands("Job and CronJob") })
	t.Run("ContainerRunsAsItsUser", func(t *testing.T) { x.withT(t).user() })
	t.Run("LogMonitorForwardsLogFiles", func(t *testing.T) { x.withT(t).logMonitor() })
	t.Run("PodStopsGracefully", func(t *testing.T) { x.withT(t).graceful() })
	t.Run("HostProcessContainersConfigureHosts", func(t *testing.T) { x.withT(t).hostProcess() })
	t.Run("UsageOfNodesAndPodsIsReported", func(t *testing.T) { x.withT(t).usage() })
	t.Run("DeploymentScalesUnderLoad", func(t *testing.T) { x.withT(t).autoscaler() })
	t.Run("KubernetesWebServerExampleWorks", func(t *testing.T) { x.withT(t).kubernetesWebServer() })
	t.Run("KubernetesRuntimeClassExampleWorks", func(t *testing.T) { x.withT(t).kubernetesRuntimeClass() })
	t.Run("ImagesOfFiveVersionsRunOnMatchingNodes", func(t *testing.T) { x.withT(t).generations() })
}

// examplesTest is a cluster for docs/examples.md.
type examplesTest struct {
	harness
	shell *testenv.Shell
	dir   string
	text  string
}

// builds returns the builds of the hosts, in their order.
func builds() []windowsbuild.Build {
	return []windowsbuild.Build{windowsbuild.Server2022, windowsbuild.Server2019, windowsbuild.Server2025}
}

func openExamples(t *testing.T) examplesTest {
	t.Helper()
	x := examplesTest{harness: newHarness(t, testenv.Options{WineHosts: len(builds()), Network: testenv.NetworkHybridOverlay, Pods: true}), dir: t.TempDir()}
	text, err := os.ReadFile("../../../docs/examples.md")
	must(t, err)
	x.shell, err = x.NewShell(t.TempDir())
	must(t, err)
	must(t, x.Lab.AddStandIns(t.Context(), x.PodImages()))
	must(t, manifest.Apply(t.Context(), x.Lab.ControlPlane.RESTConfig(), "../../../deploy/workloads"))
	x.text = string(text)
	var all []v1.Platform
	for i, h := range x.Lab.Hosts() {
		all = append(all, v1.Platform{Architecture: "amd64", OS: "windows", OSVersion: builds()[i].Label() + ".1"})
		x.setBuild(h, builds()[i])
	}
	must(t, x.Lab.AddPause(t.Context(), x.PodImages(), lab.PauseImage, all...))
	x.configure(func(s *v1alpha1.WindowsConfigSpec) {
		s.Registries.Mirrors = append(s.Registries.Mirrors, v1alpha1.RegistryMirrors{
			Source: "registry.example.com", MirrorSourcePolicy: v1alpha1.NeverContactSource,
			Mirrors: []v1alpha1.RegistryMirror{{Location: x.PodImages().Host, Insecure: true}},
		})
		s.RuntimeClasses.Additional = []v1alpha1.AdditionalRuntimeClass{{Name: "windows-2019", Version: "2019"}} // as in the document
		s.Pods.DefaultRuntimeClass = "windows2025"
	})
	return x
}

func (x examplesTest) withT(t *testing.T) examplesTest {
	x.harness = x.harness.withT(t)
	return x
}

// setBuild makes a host report another build of Windows.
func (x examplesTest) setBuild(h *lab.Host, b windowsbuild.Build) {
	x.t.Helper()
	if b == lab.Build {
		return
	}
	r, _ := windowsbuild.ReleaseOf(b)
	for name, text := range map[string]string{"CurrentBuild": fmt.Sprint(int(b)), "CurrentBuildNumber": fmt.Sprint(int(b)), "ProductName": r.Name + " Datacenter"} {
		value := guestapi.RegistryValue{Type: "REG_SZ", Text: text}
		must(x.t, h.WriteRegistry(x.t.Context(), `HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion`, name, value))
	}
	must(x.t, h.Reboot(x.t.Context()))
}

// apply applies the objects below a heading, unchanged.
func (x examplesTest) apply(heading string) {
	x.t.Helper()
	blocks, err := documents.Blocks("docs/examples.md", x.text)
	must(x.t, err)
	var objects []string
	for _, b := range blocks {
		if b.Heading == "## "+heading && b.Language == "yaml" && strings.HasPrefix(b.Text, "apiVersion") { // others are parts of WindowsConfig
			objects = append(objects, b.Text)
		}
	}
	if len(objects) == 0 {
		x.t.Fatalf("docs/examples.md has no objects below %q", heading)
	}
	file := filepath.Join(x.dir, "example.yaml")
	must(x.t, os.WriteFile(file, []byte(strings.Join(objects, "---\n")), 0o600))
	if err := x.shell.Run(x.t.Context(), x.dir, "kubectl apply -f example.yaml"); err != nil {
		x.t.Fatalf("docs/examples.md, %s: %v", heading, err)
	}
}

// commands runs the commands below a heading.
func (x examplesTest) commands(heading string) {
	x.t.Helper()
	blocks := testenv.ConsoleBlocks(x.text, "## "+heading)
	if len(blocks) == 0 {
		x.t.Fatalf("docs/examples.md has no commands below %q", heading)
	}
	for _, block := range blocks {
		if err := x.shell.Run(x.t.Context(), x.dir, block); err != nil {
			x.t.Fatalf("docs/examples.md, %s: %v", heading, err)
		}
	}
}

// ready waits until a pod is Ready.
func (x examplesTest) ready(name string) *corev1.Pod {
	x.t.Helper()
	var pod corev1.Pod
	x.eventually("pod "+name+" is Ready", func(ctx context.Context) string {
		if err := x.Client.Get(ctx, types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: name}, &pod); err != nil {
			return err.Error()
		}
		return notReadyPod(&pod)
	})
	return &pod
}

func notReadyPod(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return ""
		}
	}
	return fmt.Sprintf("phase %s: %+v; %v", pod.Status.Phase, pod.Status.ContainerStatuses, pod.Annotations)
}

// readyPods waits until an app has count pods, and all are Ready.
func (x examplesTest) readyPods(app string, count int) (pods []corev1.Pod) {
	x.t.Helper()
	x.eventually(fmt.Sprintf("%d pods of %s are Ready", count, app), func(ctx context.Context) string {
		var err error
		if pods, err = x.Pods(ctx, app); err != nil {
			return err.Error()
		}
		if len(pods) != count {
			return fmt.Sprintf("got %d pods", len(pods))
		}
		for i := range pods {
			if missing := notReadyPod(&pods[i]); missing != "" {
				return pods[i].Name + ": " + missing
			}
		}
		return ""
	})
	return pods
}

// output runs a command in a pod, which must succeed, and returns its output.
func (x examplesTest) output(pod *corev1.Pod, command ...string) string {
	x.t.Helper()
	output, code, err := x.Exec(x.t.Context(), pod, "", command...)
	if err != nil || code != 0 {
		x.t.Errorf("%q in %s: exit code %d (%v): %s", command, pod.Name, code, err, output)
	}
	return strings.TrimSpace(output)
}
