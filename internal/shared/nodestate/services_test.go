package nodestate_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

func reporting(services string) *corev1.Node {
	n := &corev1.Node{}
	n.Annotations = map[string]string{api.AnnotationServices: services}
	return n
}

func TestServiceReportRoundTrips(t *testing.T) {
	for name, all := range map[string][]nodestate.Service{
		"none": {},
		"of each state": {
			{Name: "containerd", State: api.ServiceRunning}, {Name: "kubelet", State: api.ServiceCrashLoop}, {Name: "csi-proxy", State: api.ServiceStopped},
			{Name: "hybrid-overlay-node", State: api.ServiceNotReady}, {Name: "kube-proxy", State: api.ServiceWaiting, WaitsFor: `C:\k\kube-proxy.conf`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			read, err := nodestate.Services(reporting(nodestate.FormatServices(all)))
			if err != nil || !slices.Equal(read, all) {
				t.Errorf("read %v, %v; want %v", read, err, all)
			}
		})
	}
}

func TestLongServiceReportIsTruncated(t *testing.T) {
	many := slices.Repeat([]nodestate.Service{{Name: strings.Repeat("n", 200), State: api.ServiceRunning}}, 100)
	read, err := nodestate.Services(reporting(nodestate.FormatServices(many)))
	if err != nil || len(read) == 0 || len(read) >= len(many) {
		t.Errorf("%d services were read, %v", len(read), err)
	}
}

func TestInvalidServiceReportIsRejected(t *testing.T) {
	for name, services := range map[string]string{
		"too long":         `[{"name":"` + strings.Repeat("x", 2048) + `","state":"Running"}]`,
		"no JSON":          `kubelet=Running`,
		"another type":     `{"kubelet":"Running"}`,
		"an unknown state": `[{"name":"kubelet","state":"\u001b[2J"}]`,
	} {
		t.Run(name, func(t *testing.T) {
			if all, err := nodestate.Services(reporting(services)); err == nil {
				t.Errorf("%v was read", all)
			}
		})
	}
}

func FuzzServices(f *testing.F) {
	f.Add(nodestate.FormatServices([]nodestate.Service{{Name: "kubelet", State: api.ServiceWaiting, WaitsFor: "containerd"}}))
	f.Add(`[{"name":1}]`)
	f.Fuzz(func(t *testing.T, services string) {
		all, err := nodestate.Services(reporting(services))
		if err != nil || len(all) == 0 {
			return
		}
		again, err := nodestate.Services(reporting(nodestate.FormatServices(all)))
		if err != nil || len(again) > len(all) || !reflect.DeepEqual(again, all[:len(again)]) {
			t.Errorf("%q was read as %v, and again as %v, %v", services, all, again, err)
		}
	})
}

func TestIsBootID(t *testing.T) {
	for text, want := range map[string]bool{
		"7": true, "4294967295": true, "6f9619ff-8b86-d011-b42d-00c04fc964ff": true, strings.Repeat("1", 64): true,
		"": false, strings.Repeat("1", 65): false, "7 ": false, "7\n": false, "ä": false, "../7": false,
	} {
		if got := nodestate.IsBootID(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
