//go:build linux

package e2e

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

const (
	pauseRepository = "mcr.microsoft.com/oss/kubernetes/pause"
	// Tags other than the default: one that no registry has, one without an entry for the host, and a valid one.
	absentPause, foreignPause, otherPause = pauseRepository + ":absent", pauseRepository + ":foreign", pauseRepository + ":other"
)

// TestSandboxImage joins a Wine host in a closed network, in which all requests pass a proxy that logs them. The mirrors of its sandbox image first lack
// it, then deny it, have it only for other platforms, and finally have it.
func TestSandboxImage(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunRegistries(), lab.CanRunForwardProxy())
	c := newClosedNetwork(newHarness(t, testenv.Options{WineHosts: 1, Network: testenv.NetworkLab}))
	t.Run("MissingImageIsReported", func(t *testing.T) { c.withT(t).notFound() })
	t.Run("DeniedImageIsReported", func(t *testing.T) { c.withT(t).denied() })
	t.Run("NodeBecomesReadyWithTheImage", func(t *testing.T) { c.withT(t).repaired() })
	t.Run("HostRequestedOnlyDocumentedImages", func(t *testing.T) { c.withT(t).onlyDocumented() })
	t.Run("ImageForOtherBuildsIsNotUsed", func(t *testing.T) { c.withT(t).foreign() })
	t.Run("ImageCanBeReplaced", func(t *testing.T) { c.withT(t).replaceImage() })
	t.Run("ServiceSettingsAreApplied", func(t *testing.T) { c.withT(t).serviceSettings() })
}

// closedNetwork is a harness whose host reaches two registries, both through a proxy.
type closedNetwork struct {
	harness
	host *lab.Host
	name types.NamespacedName
	// closed requires credentials; it is the mirror of Microsoft's registry from the second step on.
	closed *lab.Registry
	proxy  *lab.ForwardProxy
}

func newClosedNetwork(p harness) closedNetwork {
	p.t.Helper()
	c := closedNetwork{harness: p, host: p.Lab.Hosts()[0], name: operatorObject(p.Hosts()[0].Address), closed: p.startRegistry()}
	var err error
	if c.proxy, err = p.Lab.StartForwardProxy(p.t.Context(), map[string]string{lab.MachineName: p.Lab.Address()}); err != nil {
		p.t.Fatal(err)
	}
	p.configure(func(s *v1alpha1.WindowsConfigSpec) {
		s.Proxy = v1alpha1.ProxySpec{HTTPProxy: c.proxy.URL(), HTTPSProxy: c.proxy.URL()}
		s.Runtime.SandboxImage = absentPause
	})
	must(p.t, p.Announce(p.t.Context(), p.Hosts()...))
	return c
}

func (c closedNetwork) withT(t *testing.T) closedNetwork {
	c.harness = c.harness.withT(t)
	return c
}

// expectImage waits until condition SandboxImage of the node has a reason and the parts of a message, and returns whether the node is Ready.
func (c closedNetwork) expectImage(reason string, parts ...string) (isReady bool) {
	c.t.Helper()
	eventuallyOf(c.harness, "condition SandboxImage of the node has reason "+reason, types.NamespacedName{Name: c.Hosts()[0].Name}, func(node *corev1.Node) string {
		isReady = nodestate.IsReady(node)
		condition := nodestate.Condition(node, api.ConditionSandboxImage)
		if condition == nil || condition.Reason != reason || !containsAll(condition.Message, parts) {
			return fmt.Sprintf("got %+v", condition)
		}
		return ""
	})
	return isReady
}

func (c closedNetwork) notFound() {
	c.expect(c.name, api.ConditionSandboxImage, api.ReasonSandboxImageNotFound, absentPause, "404 Not Found", "skopeo copy --all")
	c.expect(c.name, api.ConditionReady, api.ReasonSandboxImageNotFound, absentPause)
	if c.expectImage(api.ReasonSandboxImageNotFound, "the node is not Ready until it is pulled") {
		c.t.Error("the node is Ready without its sandbox image")
	}
	c.expectEvent(c.Hosts()[0].Name, api.ReasonSandboxImageNotFound, absentPause)
}

// denied configures the default image and a mirror that requires credentials.
func (c closedNetwork) denied() {
	c.configure(func(s *v1alpha1.WindowsConfigSpec) {
		s.Runtime.SandboxImage = ""
		s.Registries.Mirrors = slices.Clone(s.Registries.Mirrors)
		for i := range s.Registries.Mirrors {
			if s.Registries.Mirrors[i].Source == "mcr.microsoft.com" {
				s.Registries.Mirrors[i].Mirrors = []v1alpha1.RegistryMirror{{Location: c.closed.Host, CABundle: string(c.Lab.RegistryCA())}}
			}
		}
	})
	if c.expectImage(api.ReasonSandboxImageDenied, desired.DefaultSandboxImage, "401 Unauthorized", "pull secret") {
		c.t.Error("the node is Ready without its sandbox image")
	}
}

func (c closedNetwork) repaired() {
	must(c.t, c.Lab.AddPause(c.t.Context(), c.closed, desired.DefaultSandboxImage, linux(), lab.HostPlatform()))
	c.setPullSecret(api.DefaultNamespace, c.closed)
	c.expectReady(c.name)
	c.expectImage(api.ReasonSandboxImagePresent, desired.DefaultSandboxImage)
}

func linux() v1.Platform { return v1.Platform{Architecture: "amd64", OS: "linux"} }

// documented returns the images in the table of docs/disconnected.md.
func (c closedNetwork) documented() (repositories []string) {
	text, err := os.ReadFile("../../../docs/disconnected.md")
	must(c.t, err)
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z.]+)/([^`:]+):[^`]+` \\|").FindAllStringSubmatch(string(text), -1) {
		repositories = append(repositories, row[2])
	}
	if len(repositories) < 2 {
		c.t.Fatalf("docs/disconnected.md names only %q", repositories)
	}
	return repositories
}

// onlyDocumented compares the host's requests before the first pod with the document.
func (c closedNetwork) onlyDocumented() {
	repositories := c.documented()
	count := 0
	for _, registry := range []*lab.Registry{c.PodImages(), c.closed} {
		requests, err := registry.Requests()
		must(c.t, err)
		for _, r := range requests {
			isIn := func(repository string) bool { return strings.HasPrefix(r.Path, "/v2/"+repository+"/") }
			if count++; r.Path != "/v2/" && !slices.ContainsFunc(repositories, isIn) {
				c.t.Errorf("the host requested %s, which is in none of the repositories of docs/disconnected.md, %q", r.Path, repositories)
			}
		}
	}
	proxied, err := c.proxy.Requests()
	if err != nil || count == 0 || len(proxied) == 0 {
		c.t.Fatalf("got %d requests to registries and %d through the proxy (%v), want some of both", count, len(proxied), err)
	}
	for _, one := range proxied {
		if !strings.Contains(one.Target, c.PodImages().Host) && one.Target != c.closed.Host {
			c.t.Errorf("the host requested %s %s, want only its two mirrors", one.Method, one.Target)
		}
	}
}

// foreign configures an image without an entry for the host. The node must keep its current one.
func (c closedNetwork) foreign() {
	old := v1.Platform{Architecture: "amd64", OS: "windows", OSVersion: "10.0.17763.1"}
	must(c.t, c.Lab.AddPause(c.t.Context(), c.closed, foreignPause, linux(), old))
	c.webserver("before", 1, nil)
	before := c.expectServing("before", 1)
	c.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Runtime.SandboxImage = foreignPause })
	if !c.expectImage(api.ReasonSandboxImageUnsuitable, foreignPause, "pods start from "+desired.DefaultSandboxImage) {
		c.t.Error("the node is out of service")
	}
	c.expect(c.name, api.ConditionSandboxImage, api.ReasonSandboxImageUnsuitable, foreignPause)
	c.expectReady(c.name)
	c.expectPinned(desired.DefaultSandboxImage)
	c.webserver("meanwhile", 1, nil)
	c.expectServing("meanwhile", 1)
	c.expectSameContainers(before)
}

// replaceImage configures a valid image. containerd must restart with it, and pods must continue to run.
func (c closedNetwork) replaceImage() {
	must(c.t, c.Lab.AddPause(c.t.Context(), c.closed, otherPause, linux(), lab.HostPlatform()))
	before := append(c.expectServing("before", 1), c.expectServing("meanwhile", 1)...)
	c.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Runtime.SandboxImage = otherPause })
	c.expectImage(api.ReasonSandboxImagePresent, otherPause)
	c.expectPinned(otherPause)
	c.expectArrived([]joiningHost{{at: c.Hosts()[0]}})
	c.webserver("after", 1, nil)
	c.expectServing("after", 1)
	c.expectSameContainers(before)
}

// expectPinned checks the image that containerd is configured with.
func (c closedNetwork) expectPinned(image string) {
	c.t.Helper()
	if text, err := c.host.ReadFile(`C:\k\containerd\containerd_conf.toml`); err != nil || !strings.Contains(string(text), "sandbox = '"+image+"'") {
		c.t.Errorf("containerd is not configured with %s (%v)", image, err)
	}
	c.eventually("image "+image+" is pinned", func(ctx context.Context) string {
		if ok, err := c.host.IsPinned(ctx, image); err != nil || !ok {
			return fmt.Sprintf("got pinned=%v (%v)", ok, err)
		}
		return ""
	})
}
