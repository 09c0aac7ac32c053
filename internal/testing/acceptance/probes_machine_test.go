package acceptance

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRevisionsAreComparedWithWhatNetworksNeed(t *testing.T) {
	for _, test := range []struct {
		build, revision int
		want            Verdict
	}{
		{17763, 107, Refuted},
		{17763, 379, Confirmed},
		{20348, 587, Refuted}, // the evaluation copy
		{20348, 681, Confirmed},
		{26100, 1742, Confirmed},
		{19041, 1, Untried},
	} {
		var a Answer
		a.judge(judgeRevision(test.build, test.revision))
		if a.Verdict != test.want {
			t.Errorf("%d.%d: %s, %s; want %s", test.build, test.revision, a.Verdict, a.Seen, test.want)
		}
	}
}

func TestUnusualAdaptersAreReported(t *testing.T) {
	usual := adapterState{Alias: "Ethernet", HardwareInterface: true, DHCP: 1, MTU: 1500, Addresses: 1}
	if seen, err := judgeAdapter(usual); err != nil || !strings.Contains(seen, "MTU 1500") {
		t.Errorf("a usual adapter: %q, %v", seen, err)
	}
	for says, edit := range map[string]func(*adapterState){
		"static":         func(a *adapterState) { a.DHCP = 0 },
		"no hardware":    func(a *adapterState) { a.HardwareInterface = false },
		"virtual switch": func(a *adapterState) { a.Alias = "vEthernet (Ethernet) 2" },
		"several IPv4":   func(a *adapterState) { a.Addresses = 2 },
	} {
		a := usual
		edit(&a)
		if _, err := judgeAdapter(a); err == nil || errors.Is(err, errUntried) || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want %q", a, err, says)
		}
	}
}

// TestOnlyOurOwnObjectsRefuteALeave ignores networks, certificates and exclusions of Windows and other programs, which change at any time.
func TestOnlyOurOwnObjectsRefuteALeave(t *testing.T) {
	before := remains{{"network nat", false}, {"service kubelet", true}}
	now := remains{
		{"network nat", false}, {"service kubelet", true}, {"network Default Switch", isOurNetwork("Default Switch")}, {"root certificate 0a", false},
		{"network flannel.4096", isOurNetwork("flannel.4096")}, {"network B", isOurNetwork("BaseOVNKubernetesHybridOverlayNetwork")},
		{`Defender exclusion C:\K\containerd`, isOurPath(`C:\K\containerd`)}, {`Defender exclusion C:\kept`, isOurPath(`C:\kept`)},
	}
	ours, others := now.since(before)
	if diff := cmp.Diff([]string{"network flannel.4096", "network B", `Defender exclusion C:\K\containerd`}, ours); diff != "" {
		t.Errorf("ours (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"network Default Switch", "root certificate 0a", `Defender exclusion C:\kept`}, others); diff != "" {
		t.Errorf("others (-want +got):\n%s", diff)
	}
}
