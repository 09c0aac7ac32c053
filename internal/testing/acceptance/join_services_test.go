package acceptance

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// hostAddress is the address of simulated computers.
const hostAddress = "192.0.2.10"

// cluster simulates the API server of a cluster with a node and a pod.
type cluster struct {
	boot      string
	container atomic.Value // string
	events    []corev1.Event
	// conditions are those of the node beside Ready, instance is the condition Ready of its WindowsInstance.
	conditions []corev1.NodeCondition
	instance   metav1.ConditionStatus
}

func (c *cluster) RoundTrip(r *http.Request) (*http.Response, error) {
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue}
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1"}}
	node.Status.Conditions, node.Status.NodeInfo.BootID = append(c.conditions, ready), c.boot
	var instance v1alpha1.WindowsInstance
	instance.Status.Conditions = []metav1.Condition{{Type: api.ConditionReady, Status: c.instance, Reason: "Joining", Message: "it takes its time"}}
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: testPod}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{ContainerID: c.container.Load().(string)}}
	objects := map[string]any{
		"/api/v1/nodes": corev1.NodeList{Items: []corev1.Node{node}}, ofPods + "/" + testPod: pod, "/api/v1/events": corev1.EventList{Items: c.events},
		ofInstances + hostAddress: instance,
	}
	response := &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody, Request: r}
	if object, known := objects[r.URL.Path]; known {
		text, err := json.Marshal(object)
		if err != nil {
			return nil, err
		}
		response.StatusCode, response.Body = http.StatusOK, io.NopCloser(bytes.NewReader(text))
	}
	return response, nil
}

// TestServiceRestartEffectsAreReported covers a Host Network Service that loses its network at a restart, temporarily or for good.
func TestServiceRestartEffectsAreReported(t *testing.T) {
	for name, test := range map[string]struct {
		lost, container string
		back            bool
		wantSeen        []string
		err             bool
	}{
		"nothing":               {wantSeen: []string{"1 s later: all parts present", "the pod's container kept running", "event NetworkLost: it was lost"}},
		"the network, a while":  {lost: "network", back: true, wantSeen: []string{"60 s later: network: not found", "all parts present after 121 s"}},
		"the network, for good": {lost: "network", err: true, wantSeen: []string{"the node has not recovered: context deadline exceeded: network: not found"}},
		"the container":         {container: "other", wantSeen: []string{"the pod has a new container"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newComputer(t)
				defer c.PowerOff()
				c.put(t, networkService)
				j, fake := c.joined(t)
				time.AfterFunc(500*time.Millisecond, func() {
					c.loseNetwork(t, test.lost)
					fake.container.Store(fake.container.Load().(string) + test.container)
				})
				if test.back {
					time.AfterFunc(2*time.Minute+500*time.Millisecond, func() { c.makeNetwork() })
				}
				seen, err := j.serviceSteps()[0].Try(t.Context(), j.session)
				if (err != nil) != test.err {
					t.Errorf("unexpected error: %v", err)
				}
				if err != nil {
					seen = err.Error()
				}
				for _, want := range test.wantSeen {
					if !strings.Contains(seen, want) {
						t.Errorf("missing %q in:\n%s", want, seen)
					}
				}
			})
		})
	}
}

// put creates a running service.
func (c *computer) put(t *testing.T, service string) {
	t.Helper()
	m := c.machine()
	mustWrite(t, m.Host.Disk.Local(`C:\service.exe`), "")
	mustPut(t, &m, desired.Service{Name: service, Description: "of Windows", Command: `C:\service.exe`})
	if err := m.Host.Services.Start(t.Context(), service); err != nil {
		t.Fatal(err)
	}
}

// joined returns a join whose node is Ready and has a pod.
func (c *computer) joined(t *testing.T) (*joining, *cluster) {
	t.Helper()
	m := c.machine()
	m.Host.Networks = c.HNS()
	c.makeNetwork()
	boot, err := m.Host.NextStart.Boot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fake := &cluster{boot: boot, instance: metav1.ConditionTrue, events: []corev1.Event{{
		Reason: "NetworkLost", Message: "it was lost", LastTimestamp: metav1.NewTime(time.Now().Add(time.Second)),
	}}}
	fake.container.Store("containerd://1")
	s := &session{Machine: m, out: io.Discard, recorded: func(Fact) {}, redact: newRedactor(nil)}
	return &joining{
		session: s, address: hostAddress, running: running{ended: map[string]error{}},
		api:    apiServer{url: "http://api.test", http: &http.Client{Transport: fake}},
		report: &Report{Lines: []Answer{{ID: "node-ready", Verdict: Confirmed}, {ID: "pod", Verdict: Confirmed}}},
	}, fake
}

// makeNetwork creates the Host Network Service's objects of a node.
func (c *computer) makeNetwork() {
	service := c.HNS()
	created := service.Add(hns.State{Networks: []hns.Network{{
		Name: "flannel.4096", Type: hns.Overlay, Subnets: []hns.Subnet{{Prefix: netip.MustParsePrefix("10.244.0.0/24"), Gateway: netip.MustParseAddr("10.244.0.1"), VNI: 4096}},
	}}})
	created = service.Add(hns.State{Endpoints: []hns.Endpoint{{Network: created.Networks[0].ID, Name: "host", Host: true}}})
	service.Add(hns.State{LoadBalancers: []hns.LoadBalancer{{
		VIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")}, Endpoints: []string{created.Endpoints[0].ID}, Protocol: hns.TCP, External: 443, Internal: 6443,
	}}})
}

// loseNetwork removes the network and everything on it.
func (c *computer) loseNetwork(t *testing.T, what string) {
	if what == "" {
		return
	}
	service := c.HNS()
	state, err := service.List(t.Context())
	if err == nil {
		err = service.Remove(t.Context(), state)
	}
	if err != nil {
		t.Error(err)
	}
}

// TestKilledServiceMustRestart expects Windows or WICD to start it.
func TestKilledServiceMustRestart(t *testing.T) {
	for name, test := range map[string]struct {
		kill     func(*computer, uint32) error
		wantSeen string
		err      bool
	}{
		"it is":     {func(c *computer, _ uint32) error { c.Crash(desired.ContainerdService); return nil }, "it was restarted after", false},
		"it is not": {func(*computer, uint32) error { return nil }, "nothing restarts service " + desired.ContainerdService, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newComputer(t)
				defer c.PowerOff()
				c.put(t, desired.ContainerdService)
				j, _ := c.joined(t)
				j.Kill = func(pid uint32) error { return test.kill(c, pid) }
				seen, err := j.serviceSteps()[2].Try(t.Context(), j.session)
				if err != nil {
					seen = err.Error()
				}
				if (err != nil) != test.err || errors.Is(err, errUntried) || !strings.Contains(seen, test.wantSeen) {
					t.Errorf("got error %v and:\n%s", err, seen)
				}
			})
		})
	}
}
