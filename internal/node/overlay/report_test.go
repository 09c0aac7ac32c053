package overlay_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/overlay"
	"github.com/windows-machine-config/wmco/internal/node/overlaystatus"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// reporting makes the host write a status file.
func (h *host) reporting() *host {
	h.options.StatusFile = h.file("../overlay-status")
	return h
}

// problems returns the problems in the status file.
func (h *host) problems() []overlaystatus.Problem {
	h.env.Helper()
	text, err := os.ReadFile(h.options.StatusFile)
	if err != nil {
		h.env.Fatal(err)
	}
	s, err := overlaystatus.Decode(text)
	if err != nil {
		h.env.Fatal(err)
	}
	return s.Problems
}

// wantProblem fails the test unless the file has exactly this problem, and the log has it once.
func (h *host) wantProblem(reason, message string) {
	h.env.Helper()
	found := h.problems()
	if len(found) != 1 || found[0].Reason != reason || !strings.Contains(found[0].Message, message) {
		h.env.Fatalf("problems %+v, want %s with %q", found, reason, message)
	}
	if n := h.log.count(`The overlay has a problem","reason":"` + reason); n != 1 {
		h.env.Errorf("%s is in the log %d times, want once", reason, n)
	}
}

// ovnRanges returns the ranges of an OpenShift cluster, and a second hybrid range.
func ovnRanges() overlay.Ranges {
	return overlay.Ranges{
		Cluster: []netip.Prefix{netip.MustParsePrefix("10.128.0.0/14")},
		Hybrid:  []netip.Prefix{netip.MustParsePrefix("10.132.0.0/14"), netip.MustParsePrefix("10.160.0.0/16")},
	}
}

func TestOverlayStatusReportsCause(t *testing.T) {
	const ip = "192.0.2.1"
	subnet := func(s string) map[string]string { return map[string]string{overlay.SubnetAnnotation: s} }
	mac := func(s string) map[string]string {
		return map[string]string{overlay.SubnetAnnotation: s, overlay.RouterMACAnnotation: "00-15-5d-00-00-66"}
	}
	good := func(e *env) { e.node("win-1", "windows", ip, subnet("10.132.1.0/24")) }
	for name, test := range map[string]struct {
		causes  func(e *env)
		lasts   time.Duration
		reason  string
		message string
		repair  func(e *env)
	}{
		"no subnet": {func(e *env) { e.node("win-1", "windows", ip, nil) }, time.Minute, api.ReasonOverlaySubnetMissing,
			"OVN-Kubernetes has not assigned a subnet to this node (annotation k8s.ovn.org/hybrid-overlay-node-subnet)", good},
		"subnet of Linux": {func(e *env) {
			e.node("win-1", "windows", ip, map[string]string{overlay.LinuxSubnetsAnnotation: `{"default":["10.129.0.0/23"]}`})
		}, time.Minute, api.ReasonOverlayNodeTreatedAsLinux, `--no-hostsubnet-nodes="kubernetes.io/os=windows"`, good},
		"Linux nodes without overlay": {func(e *env) {
			e.node("linux-1", "linux", "192.0.100.2", map[string]string{overlay.LinuxSubnetsAnnotation: `{"default":["10.128.1.0/24"]}`})
		}, time.Minute, api.ReasonOverlayLinuxNodesMissing, "no Linux node is part of the hybrid overlay: annotation k8s.ovn.org/hybrid-overlay-distributed-router-gateway-mac is missing on linux-1;", func(e *env) { e.linux(1) }},
		"an invalid own subnet": {func(e *env) { e.node("win-1", "windows", ip, subnet("10.132.1.0/31")) }, 30 * time.Second, api.ReasonOverlaySubnetRefused,
			`"10.132.1.0/31" is not an IPv4 subnet`, good},
		"own subnet outside": {func(e *env) { e.node("win-1", "windows", ip, subnet("10.7.1.0/24")) }, 30 * time.Second, api.ReasonOverlaySubnetRefused,
			"its subnet 10.7.1.0/24 is not a part of the hybrid cluster network [10.132.0.0/14 10.160.0.0/16]", good},
		"own subnet in the second range": {func(e *env) { e.node("win-1", "windows", ip, subnet("10.160.1.0/24")) }, 30 * time.Second, api.ReasonOverlaySubnetRefused,
			"routes only the first range of the hybrid cluster network", good},
		"an invalid own address": {func(e *env) { e.node("win-1", "windows", "192.0.2.256", subnet("10.132.1.0/24")) }, 30 * time.Second, api.ReasonOverlaySubnetRefused,
			`its InternalIP "192.0.2.256" is not an IP address`, good},
		"neighbor outside": {func(e *env) { e.node("win-7", "windows", "192.0.2.7", mac("10.7.1.0/24")) }, 30 * time.Second, api.ReasonOverlayNeighborRefused,
			"this node has no route to the pods of win-7 (its subnet 10.7.1.0/24 is not a part of", func(e *env) { e.node("win-7", "windows", "192.0.2.7", mac("10.132.7.0/24")) }},
		"neighbors with a bad address": {func(e *env) {
			for i := range 5 {
				e.node(fmt.Sprintf("win-7%d", i), "windows", "somewhere", mac(fmt.Sprintf("10.132.7%d.0/24", i)))
			}
		}, 30 * time.Second, api.ReasonOverlayNeighborRefused, `win-72 (its InternalIP "somewhere" is not an IP address) and 2 more`, func(e *env) {
			for i := range 5 {
				e.cluster.Delete(nodePath(fmt.Sprintf("win-7%d", i)))
			}
		}},
		"neighbor with the address of this host": {func(e *env) { e.node("win-7", "windows", ip, mac("10.132.7.0/24")) }, 30 * time.Second, api.ReasonOverlayNeighborRefused,
			"win-7 (its InternalIP 192.0.2.1 is that of this node)", func(e *env) { e.cluster.Delete(nodePath("win-7")) }},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(e *env) {
				h := e.windows(1, sim.HNSOptions{}).reporting()
				h.options.Settings.Ranges = ovnRanges()
				test.causes(e)
				h.start()
				e.passes(test.lasts - 2*time.Second)
				if found := h.problems(); len(found) > 0 {
					t.Errorf("too early: %+v", found)
				}
				e.passes(4 * time.Second)
				h.wantProblem(test.reason, test.message)
				e.passes(10 * time.Minute)
				h.wantProblem(test.reason, test.message)
				test.repair(e)
				e.await(10*time.Second, "the problem is solved", func() bool { return len(h.problems()) == 0 && h.published() })
				if h.log.count(`A problem of the overlay is resolved","reason":"`+test.reason) != 1 {
					t.Errorf("the log does not report it:\n%s", h.log)
				}
			})
		})
	}
}

// TestLeftoverLinuxSubnetIsIgnored: annotations that OVN-Kubernetes left when its hybrid overlay was off for a while mean nothing.
func TestLeftoverLinuxSubnetIsIgnored(t *testing.T) {
	story(t, func(e *env) {
		e.linux(1)
		leftover := func(i int) map[string]string {
			return map[string]string{overlay.SubnetAnnotation: fmt.Sprintf("10.132.%d.0/24", i), overlay.LinuxSubnetsAnnotation: fmt.Sprintf(`{"default":["10.128.%d.0/23"]}`, 2*i)}
		}
		one, two := e.windows(1, sim.HNSOptions{}).reporting(), e.windows(2, sim.HNSOptions{})
		e.node("win-1", "windows", "192.0.2.1", leftover(1))
		e.node("win-2", "windows", "192.0.2.2", leftover(2))
		one.start()
		two.start()
		e.await(time.Minute, "both have routes to each other", func() bool {
			return one.published() && two.published() && one.has(linuxRemote(1), two.remote()) && two.has(linuxRemote(1), one.remote())
		})
		e.passes(10 * time.Minute)
		if found := one.problems(); len(found) > 0 {
			t.Errorf("problems %+v", found)
		}
	})
}

// TestOwnNodeIsWindowsWithoutLabel: whatever the label of the Node, the program runs on Windows.
func TestOwnNodeIsWindowsWithoutLabel(t *testing.T) {
	story(t, func(e *env) {
		h := e.windows(1, sim.HNSOptions{}).reporting().start()
		e.await(time.Minute, "the overlay is configured", h.published)
		h.service.ResetCalls()
		e.node("win-1", "linux", "192.0.2.1", map[string]string{
			overlay.SubnetAnnotation: "10.132.1.0/24", overlay.LinuxSubnetsAnnotation: `{"default":["10.129.2.0/23"]}`, overlay.RouterMACAnnotation: e.annotation("win-1", overlay.RouterMACAnnotation),
		})
		e.passes(10 * time.Minute)
		h.stop()
		h.start()
		e.passes(10 * time.Minute)
		h.wantChanges(map[string]int{})
		if found := h.problems(); len(found) > 0 {
			t.Errorf("problems %+v", found)
		}
	})
}

func TestBothNodesOfAConflictReportIt(t *testing.T) {
	story(t, func(e *env) {
		one, two, three := e.windows(1, sim.HNSOptions{}).reporting(), e.windows(2, sim.HNSOptions{}).reporting(), e.windows(3, sim.HNSOptions{}).reporting()
		e.node("win-2", "windows", "192.0.2.2", map[string]string{overlay.SubnetAnnotation: "10.132.1.128/25"})
		for _, h := range []*host{one, two, three} {
			h.start()
		}
		e.passes(5 * time.Minute)
		for _, h := range []*host{one, two} {
			if found := h.problems(); len(found) != 2 || found[0].Reason != api.ReasonOverlaySubnetRefused || found[1].Reason != api.ReasonOverlayNeighborRefused {
				t.Errorf("%s reports %+v", h.node, found)
			}
		}
		three.wantProblem(api.ReasonOverlayNeighborRefused, "win-1 (its subnet 10.132.1.0/24 overlaps 10.132.1.128/25, which node win-2 claims")
		if !one.has(three.remote()) || !two.has(three.remote()) || !three.has() {
			t.Error("the first two nodes have a route to the subnet of the third, or it has one of theirs")
		}
	})
}

func TestStatusReportsCertificateRequest(t *testing.T) {
	story(t, func(e *env) {
		e.cluster.Approve(func(*certificatesv1.CertificateSigningRequest) bool { return false })
		h := e.windows(1, sim.HNSOptions{}).reporting().start()
		e.passes(58 * time.Second)
		if found := h.problems(); len(found) > 0 {
			t.Errorf("too early: %+v", found)
		}
		e.passes(4 * time.Second)
		name := e.requested()[0].Name
		h.wantProblem(api.ReasonOverlayCertificatePending, "ovnkube-identity has not approved certificate request "+name+" of win-1")
		condition := func(kind string) {
			e.cluster.Patch(requests+"/"+name, map[string]any{"status": map[string]any{"conditions": []any{
				map[string]any{"type": kind, "status": "True", "reason": "No", "message": "not today"},
			}}})
			e.passes(time.Second)
		}
		condition("Approved")
		if found := h.problems(); len(found) != 1 || !strings.Contains(found[0].Message, "is approved but not signed") {
			t.Errorf("approved: %+v", found)
		}
		condition("Denied")
		if found := h.problems(); len(found) != 1 || !strings.Contains(found[0].Message, "has refused the certificate request of win-1") || !strings.Contains(found[0].Message, "not today") {
			t.Errorf("denied: %+v", found)
		}
		e.cluster.Approve(func(r *certificatesv1.CertificateSigningRequest) bool { return len(r.Status.Conditions) == 0 })
		e.await(7*time.Minute, "the problem is solved", func() bool { return h.published() && len(h.problems()) == 0 })
	})
}

func TestStatusReportsDeniedAnnotation(t *testing.T) {
	story(t, func(e *env) {
		e.cluster.Forbid("system:ovn-node:", "PATCH", nodePath("win-1")+"/status")
		h := e.windows(1, sim.HNSOptions{}).reporting().start()
		e.passes(25 * time.Second)
		if found := h.problems(); len(found) > 0 {
			t.Errorf("too early: %+v", found)
		}
		e.passes(10 * time.Second)
		h.wantProblem(api.ReasonOverlayAnnotationDenied, "the API server returned 403")
	})
}

func TestStatusFileExistsOnlyWhileProgramRuns(t *testing.T) {
	story(t, func(e *env) {
		h := e.windows(1, sim.HNSOptions{}).reporting()
		if err := os.WriteFile(h.options.StatusFile, []byte("of an earlier start"), 0o600); err != nil {
			t.Fatal(err)
		}
		h.start()
		e.passes(0)
		if found := h.problems(); len(found) > 0 {
			t.Errorf("at first it has %+v", found)
		}
		h.stop()
		if _, err := os.Stat(h.options.StatusFile); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after the end: %v", err)
		}
	})
}

func TestStatusFileIsWrittenOnlyOnChange(t *testing.T) {
	story(t, func(e *env) {
		h := e.windows(1, sim.HNSOptions{}).reporting().start()
		e.await(time.Minute, "the overlay is configured", h.published)
		before, err := os.Stat(h.options.StatusFile)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			e.linux(i)
			e.passes(time.Second)
		}
		if after, err := os.Stat(h.options.StatusFile); err != nil || !os.SameFile(before, after) {
			t.Errorf("it was written without a difference: %v", err)
		}
	})
}

func TestUnwritableStatusFileIsLoggedOnce(t *testing.T) {
	story(t, func(e *env) {
		h := e.windows(1, sim.HNSOptions{}).reporting()
		if err := os.MkdirAll(h.options.StatusFile+"/in-the-way", 0o700); err != nil {
			t.Fatal(err)
		}
		h.start()
		e.await(time.Minute, "the overlay is configured", h.published)
		e.passes(10 * time.Minute)
		if n := h.log.count("Writing the status file failed"); n != 1 {
			t.Errorf("it was logged %d times, want once", n)
		}
		if err := os.RemoveAll(h.options.StatusFile); err != nil {
			t.Fatal(err)
		}
		e.passes(time.Minute)
		if !slices.Equal(h.problems(), []overlaystatus.Problem{}) {
			t.Errorf("problems %+v", h.problems())
		}
	})
}
