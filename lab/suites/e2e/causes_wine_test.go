//go:build linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// mirrored is a registry that hosts can reach only through its mirror.
const mirrored = "shop.test"

// TestWindowsFailureCausesAreReported covers failures that only the real containerd and kubelet report.
func TestWindowsFailureCausesAreReported(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunRegistries())
	p := newPluginTest(newHarness(t, testenv.Options{WineHosts: 1, Network: testenv.NetworkLab}))
	mirror := p.startRegistry()
	p.setPullSecret(api.DefaultNamespace, mirror)
	p.trustRegistries()
	// The operator can resolve hosts only through a proxy.
	proxy, err := p.Lab.StartForwardProxy(t.Context(), map[string]string{lab.MachineName: p.Lab.Address()})
	must(t, err)
	p.configure(func(s *v1alpha1.WindowsConfigSpec) {
		s.Proxy = v1alpha1.ProxySpec{HTTPSProxy: proxy.URL()}
		s.Registries.Mirrors = append(s.Registries.Mirrors, v1alpha1.RegistryMirrors{
			Source: mirrored, Mirrors: []v1alpha1.RegistryMirror{{Location: mirror.Host}},
			PullBy: v1alpha1.PullByDigestAndTag, MirrorSourcePolicy: v1alpha1.NeverContactSource,
		})
	})
	p.joinAll()
	w := winePluginTest{p, mirror}
	t.Run("ImageForAnotherBuild", func(t *testing.T) { w.withT(t).anotherBuild() })
	t.Run("MirrorDown", func(t *testing.T) { w.withT(t).mirrorDown() })
	t.Run("ProxyUnreachable", func(t *testing.T) { w.withT(t).silentProxy() })
	t.Run("DiskFull", func(t *testing.T) { w.withT(t).fullDisk() })
}

// winePluginTest is a pluginTest with a Wine host that pulls images of registry shop.test from a mirror.
type winePluginTest struct {
	pluginTest
	mirror *lab.Registry
}

func (w winePluginTest) withT(t *testing.T) winePluginTest {
	w.pluginTest = w.pluginTest.withT(t)
	return w
}

func (w winePluginTest) anotherBuild() {
	i := w.pushWebserver(w.mirror, "team/old")
	older := v1.Platform{Architecture: "amd64", OS: "windows", OSVersion: "10.0.17763.5122"}
	must(w.t, w.mirror.PushIndex(w.t.Context(), "team/old", "ltsc2019", i, older))
	d := w.deploy("old", mirrored+"/team/old:ltsc2019")
	w.expectReported(w.Hosts()[0].Name, api.EventImageForAnotherBuild, "default/old-", mirrored+"/team/old:ltsc2019", "Use an image that is built for the node's Windows build")
	w.expectPodReason("old", api.EventImageForAnotherBuild, "which has build 10.0.20348", "the image is for 10.0.17763 (Windows Server 2019)")
	w.remove(d)
	w.expectNotReported(api.EventImageForAnotherBuild)
	w.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Proxy = v1alpha1.ProxySpec{} })
	w.expectArrived([]joiningHost{{at: w.Hosts()[0]}})
}

// expectPodReason waits until a pod of an app has annotation and event of a reason, and checks the number of the operator's requests to the registry.
func (w winePluginTest) expectPodReason(app, reason string, parts ...string) {
	w.t.Helper()
	var failed, at time.Time
	w.eventually("the pod has annotation and event "+reason, func(ctx context.Context) string {
		var pods corev1.PodList
		var events corev1.EventList
		if err := errors.Join(w.Client.List(ctx, &pods, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{"app": app}), w.Client.List(ctx, &events, client.InNamespace(metav1.NamespaceDefault))); err != nil {
			return err.Error()
		}
		if len(pods.Items) != 1 {
			return fmt.Sprintf("got %d pods, want 1", len(pods.Items))
		}
		pod := &pods.Items[0]
		reported := 0
		for _, e := range events.Items {
			switch {
			case e.InvolvedObject.UID != pod.UID:
			case e.Reason == reason:
				reported++
				at = e.EventTime.Time
			case e.Reason == "Failed" && (failed.IsZero() || e.FirstTimestamp.Time.Before(failed)): // by the kubelet
				failed = e.FirstTimestamp.Time
			}
		}
		text := pod.Annotations[api.AnnotationDoesNotStart]
		if all := append(parts, reason+": "); !containsAll(text, all) {
			return fmt.Sprintf("annotation %q lacks one of %q", text, all)
		}
		if reported != 1 {
			return fmt.Sprintf("got %d events, want 1", reported)
		}
		return ""
	})
	if took := at.Sub(failed); failed.IsZero() || took > 10*time.Second {
		w.t.Errorf("the cause was reported %v after the kubelet's event of %v, want at most 10 s", took, failed)
	} else {
		w.t.Logf("the cause was reported %v after the kubelet's event, whose time has whole seconds", took)
	}
	all, err := w.mirror.Requests()
	must(w.t, err)
	count := 0
	for _, q := range all {
		if q.Agent == api.ManagedBy {
			count++
		}
	}
	w.t.Logf("the operator sent %d requests", count)
	if count == 0 || count > 2 {
		w.t.Errorf("the operator sent %d requests for one image, want 1 or 2: %+v", count, all)
	}
}

func (w winePluginTest) mirrorDown() {
	w.pushWebserver(w.mirror, "team/shop")
	w.mirror.Stop()
	w.deploy("shop", mirrored+"/team/shop:1")
	w.expectReported(w.Hosts()[0].Name, api.EventMirrorUnavailable, "default/shop-", w.mirror.Host, "Check whether the mirrors in the message answer")
	must(w.t, w.mirror.Start(w.t.Context()))
	// The kubelet retries the pull for the same pod with growing back-off.
	must(w.t, w.Client.DeleteAllOf(w.t.Context(), &corev1.Pod{}, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{"app": "shop"}))
	w.expectServing("shop", 1)
	w.expectNotReported(api.EventMirrorUnavailable)
}

func (w winePluginTest) silentProxy() {
	proxy := fmt.Sprintf("http://%s:1", w.Hosts()[0].Address)
	w.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Proxy = v1alpha1.ProxySpec{HTTPSProxy: proxy} })
	w.expectArrived([]joiningHost{{at: w.Hosts()[0]}})
	d := w.deploy("far", beyond+"/team/far:1")
	w.expectReported(w.Hosts()[0].Name, api.EventProxyUnreachable, "default/far-", beyond, "Check whether the proxy answers the node, and spec.proxy of WindowsConfig")
	w.remove(d)
	w.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Proxy = v1alpha1.ProxySpec{} })
	w.expectNotReported(api.EventProxyUnreachable)
	w.expectArrived([]joiningHost{{at: w.Hosts()[0]}})
}

// fullDisk raises the eviction thresholds so that the kubelet treats a nearly empty disk as full.
func (w winePluginTest) fullDisk() {
	var before v1alpha1.KubeletSpec
	w.configure(func(s *v1alpha1.WindowsConfigSpec) {
		before = *s.Kubelet.DeepCopy()
		s.Kubelet.EvictionHard = map[string]string{"nodefs.available": "99%", "imagefs.available": "99%"}
		s.Kubelet.SystemReserved = map[string]string{"ephemeral-storage": "0"} // otherwise thresholds and reservation together exceed the disk
	})
	w.expectReported(w.Hosts()[0].Name, "KubeletHasDiskPressure", "Free disk space on the host: remove unused images and files, or enlarge drive C:")
	w.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Kubelet = before })
	w.expectNotReported("KubeletHasDiskPressure")
}

// stoppedNetworkService stops HNS on a host with a network for pods.
func stoppedNetworkService(p pluginTest) {
	h := p.Lab.Hosts()[0]
	must(p.t, h.StopService(p.t.Context(), lab.NetworkService))
	p.expectReported(p.Hosts()[0].Name, api.ReasonHNSUnavailable, "start the service hns (Host Network Service)")
	must(p.t, h.StartService(p.t.Context(), lab.NetworkService))
	p.expectNotReported(api.ReasonHNSUnavailable)
}
