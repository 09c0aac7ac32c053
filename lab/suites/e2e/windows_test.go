//go:build linux

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
)

// TestWindowsHostBecomesReadyNode joins a host to an OpenShift cluster with real programs: Wine's service manager starts kubelet.exe
// and containerd.exe, which register a Ready node with a bootstrap token and approved certificate requests.
func TestWindowsHostBecomesReadyNode(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunRegistries())
	p := newHarness(t, testenv.Options{WineHosts: 1, OpenShift: "None"})
	host := p.Lab.Hosts()[0]
	p.joinAll()
	name := operatorObject(host.Address())

	t.Run("NodeHasLabelsAndAnnotations", func(t *testing.T) { p.withT(t).checkNode(host) })
	t.Run("JoinNeedsOneConnectionFiveCommandsOneTransfer", func(t *testing.T) { p.withT(t).checkConnections(host) })
	t.Run("BootstrapTokenIsRemoved", func(t *testing.T) { p.withT(t).checkTokenRemoved(host, name) })
	t.Run("KubeletUsesTheTLSSecurityProfile", func(t *testing.T) { p.withT(t).checkTLS(host) })
	t.Run("NodeIsReadyAfterReboot", func(t *testing.T) { p.withT(t).checkReboot(host, name) })
	t.Run("CredentialPluginIsReportedAndLabeled", func(t *testing.T) { p.withT(t).checkPlugin(host, name) })
	t.Run("ReleasedHostRejoinsWithoutTransfer", func(t *testing.T) { p.withT(t).checkRejoin(host, name) })
}

func (p harness) checkNode(host *lab.Host) {
	node := p.node("win-1")
	for key, want := range map[string]string{
		corev1.LabelOSStable: "windows", corev1.LabelWindowsBuild: "10.0.20348", api.LabelOSID: "Windows",
		api.LabelBYOH: "true", api.LabelWorker: "", api.LabelRunsPrefix + "windows2022": "true",
	} {
		if got, found := node.Labels[key]; !found || got != want {
			p.t.Errorf("label %s: got %q, want %q", key, got, want)
		}
	}
	class, err := p.Clients.NodeV1().RuntimeClasses().Get(p.t.Context(), "windows2022", metav1.GetOptions{})
	if err != nil || class.Scheduling.NodeSelector[corev1.LabelWindowsBuild] != node.Labels[corev1.LabelWindowsBuild] {
		p.t.Errorf("RuntimeClass windows2022 does not select the node: %v, %v", class, err)
	}
	for _, key := range []string{
		api.AnnotationVersion, api.AnnotationDesiredVersion, api.AnnotationPubKeyHash,
		api.AnnotationSSHHostKey, api.AnnotationSSHHostKeyType,
	} {
		if node.Annotations[key] == "" {
			p.t.Errorf("annotation %s is missing", key)
		}
	}
	if len(node.Spec.Taints) != 1 || node.Spec.Taints[0].ToString() != "os=Windows:NoSchedule" {
		p.t.Errorf("taints: got %v, want os=Windows:NoSchedule", node.Spec.Taints)
	}
	info := node.Status.NodeInfo
	if info.KubeletVersion != sim.KubeletVersion || info.ContainerRuntimeVersion != sim.ContainerRuntime {
		p.t.Errorf("versions of the kubelet and the container runtime: got %s and %s, want %s and %s", info.KubeletVersion, info.ContainerRuntimeVersion, sim.KubeletVersion, sim.ContainerRuntime)
	}
	if got := node.Status.Addresses; len(got) == 0 || got[0].Address != host.Address() {
		p.t.Errorf("addresses of the node: got %v, want %s first", got, host.Address())
	}
}

func (p harness) checkConnections(host *lab.Host) {
	stats, err := host.Stats()
	must(p.t, err)
	if stats.Connections > 1 || stats.ExecChannels > 5 || stats.SFTPChannels > 1 {
		p.t.Errorf("the join took %d connections, %d commands and %d transfers, want at most 1, 5 and 1",
			stats.Connections, stats.ExecChannels, stats.SFTPChannels)
	}
	started, err := host.PowerShellStarts()
	if err != nil || len(started) > 0 {
		p.t.Errorf("PowerShell was started: %v (%v)", started, err)
	}
}

func (p harness) checkTokenRemoved(host *lab.Host, name types.NamespacedName) {
	p.eventually("the bootstrap token is removed from the host", func(context.Context) string {
		if _, err := host.Stat(`C:\k\bootstrap-kubeconfig`); err == nil {
			return "the file still exists"
		}
		return ""
	})
	if id := p.instance(name).Status.BootstrapCredentialID; id != "" {
		p.t.Errorf("credential %s is still valid", id)
	}
}

func (p harness) checkReboot(host *lab.Host, name types.NamespacedName) {
	before := p.node("win-1").Status.NodeInfo.BootID
	must(p.t, host.Reboot(p.t.Context()))
	p.expectBooted("win-1", before)
	p.expectReady(name)
}

// checkPlugin registers a plugin of Container Credential Guard. WICD detects it when it starts, when Windows starts, or within ten minutes.
func (p harness) checkPlugin(host *lab.Host, name types.NamespacedName) {
	if c := nodestate.Condition(p.node("win-1"), api.ConditionGMSACapable); c != nil {
		p.t.Errorf("condition of a host without a plugin: got %+v, want none", c)
	}
	const id = "{CCC2A336-D7F3-4818-A213-272B7924213E}"
	for _, key := range []string{`HKLM\SYSTEM\CurrentControlSet\Control\CCG\COMClasses\` + id, `HKLM\SOFTWARE\Classes\CLSID\` + id} {
		must(p.t, host.WriteRegistry(p.t.Context(), key, "", guestapi.RegistryValue{Type: "REG_SZ", Text: "a plugin"}))
	}
	p.checkReboot(host, name)
	eventuallyOf(p, "the node reports the plugin", types.NamespacedName{Name: "win-1"}, func(node *corev1.Node) string {
		c := nodestate.Condition(node, api.ConditionGMSACapable)
		if c == nil || c.Status != corev1.ConditionTrue || c.Reason != api.ReasonCredentialPlugin || !strings.Contains(c.Message, id) {
			return fmt.Sprintf("got condition %+v", c)
		}
		if label := node.Labels[api.LabelGMSA]; label != "true" {
			return fmt.Sprintf("label %s: got %q, want true", api.LabelGMSA, label)
		}
		return ""
	})
	for _, c := range p.node("win-1").Status.Conditions {
		if slices.Contains([]corev1.NodeConditionType{
			api.ConditionHostComputeUnavailable, api.ConditionCommitPressure, api.ConditionClockSkewed, api.ConditionDefenderInterference,
		}, c.Type) {
			p.t.Errorf("healthy node has condition %+v", c)
		}
	}
}

// expectBooted waits until a node reports another boot and is Ready.
func (p harness) expectBooted(name, before string) {
	p.t.Helper()
	eventuallyOf(p, "node "+name+" reports a new boot and is Ready", types.NamespacedName{Name: name}, func(node *corev1.Node) string {
		if node.Status.NodeInfo.BootID == before {
			return "the boot ID is still " + before
		}
		return notReady(node)
	})
}

func notReady(node *corev1.Node) string {
	if nodestate.IsReady(node) {
		return ""
	}
	return "the node is not Ready"
}

func (p harness) checkRejoin(host *lab.Host, name types.NamespacedName) {
	before, err := host.Stats()
	must(p.t, err)
	previous := p.node("win-1").UID
	if err := p.Release(p.t.Context(), p.instance(name)); err != nil { // otherwise the host would be cleaned up
		p.t.Fatal(err)
	}
	p.remove(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: api.InstancesConfigMap}})
	p.expectGone(name, &v1alpha1.WindowsInstance{})
	p.joinAll()
	if p.node("win-1").UID == previous {
		p.t.Error("the host did not register a new Node")
	}
	after, err := host.Stats()
	must(p.t, err)
	if sent := after.Sub(before).BytesIn; sent > 1<<20 {
		p.t.Errorf("%d bytes were sent to a host that already has all content", sent)
	}
}
