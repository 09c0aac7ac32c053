package podpolicy_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/apiclient"
	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/node/daemon/nodestatus"
	"github.com/windows-machine-config/wmco/internal/node/daemon/podpolicy"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/identity"
	"github.com/windows-machine-config/wmco/internal/node/kubeapi"
	"github.com/windows-machine-config/wmco/internal/node/policypipe"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/policyset"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sim/servers"
)

const (
	networkName = "overlay"
	setsPath    = "/apis/" + api.GroupName + "/v1alpha1/namespaces/operators/windowspolicysets/"
	// inForce is longer than anything needs to become effective, except for repairs that have to wait.
	inForce = 15 * time.Second
	noQuirk = "the time until rules are in force is measured"
)

// node is a host with a pod network and the part of WICD under test, and its cluster.
type node struct {
	windows  *sim.Windows
	hns      *sim.HNS
	cluster  *servers.Cluster
	policies *desired.Policies
	network  string
	// part is the current Reconciler; stop ends it. unconnect ends only its connection to the API server.
	part            *podpolicy.Reconciler
	stop, unconnect func()
	wake            state.Signal
	made            int

	mu  sync.Mutex
	log bytes.Buffer
}

// Write implements io.Writer for the log.
func (n *node) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.log.Write(p)
}

func enforced() *desired.Policies { return &desired.Policies{Mode: desired.PolicyEnforce} }

// newNode returns a host whose part runs.
func newNode(t *testing.T, policies *desired.Policies, o sim.WindowsOptions) *node {
	t.Helper()
	cluster, err := servers.NewIsolatedCluster()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	n := &node{cluster: cluster, policies: policies, wake: state.NewSignal()}
	n.windows = daemontest.NewWindows(t, o)
	n.hns = n.windows.HNS()
	added := n.hns.Add(hns.State{Networks: []hns.Network{
		{
			Name: networkName, Type: hns.Overlay, RouterMAC: "00-15-5D-00-00-01", ManagementIP: netip.MustParseAddr("192.0.2.10"),
			Subnets: []hns.Subnet{{Prefix: netip.MustParsePrefix("10.132.1.0/24"), Gateway: netip.MustParseAddr("10.132.1.1")}},
		},
		{Name: "nat"},
	}})
	n.network = added.Networks[0].ID
	n.hns.Add(hns.State{Endpoints: []hns.Endpoint{
		{Network: n.network, Name: "VIPEndpoint", Address: netip.MustParseAddr("10.132.1.254"), Host: true},
		{Network: n.network, Address: netip.MustParseAddr("10.132.9.9"), Remote: true},
		{Network: added.Networks[1].ID, Name: "other", Address: netip.MustParseAddr("10.132.1.10")},
	}})
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(n.log.String())
		}
	})
	n.start(t)
	return n
}

// start starts the part, as a session does.
func (n *node) start(t *testing.T) {
	t.Helper()
	s := state.Session{
		Host: n.windows.Host(), Log: slog.New(slog.NewTextHandler(n, nil)),
		Record: state.Record{JoinRequest: wicdapi.JoinRequest{Namespace: "operators", Local: desired.Local{Node: "win-1", NodeIP: "192.0.2.10"}}},
		Wanted: desired.Node{Policies: n.policies, Network: &desired.Network{Name: networkName, Endpoint: "VIPEndpoint"}},
	}
	n.part = podpolicy.New(s, n.wake, &nodestatus.Metrics{Session: s})
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { n.part.Run(ctx) })
	n.stop = sync.OnceFunc(func() { cancel(); n.unconnect(); work.Wait() })
	n.connect(t)
	t.Cleanup(n.stop)
}

// connect connects the part to the API server, as with a new certificate.
func (n *node) connect(t *testing.T) {
	t.Helper()
	client, err := kubeapi.New(kubeapi.Options{
		Server: identity.Server{Address: n.cluster.URL, CA: []byte(n.cluster.CA), Dial: n.cluster.Dial}, Token: n.cluster.Token,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.part.Follow(ctx, &apiclient.Client{Client: client})
	}()
	n.unconnect = sync.OnceFunc(func() { cancel(); <-done; client.Close() })
}

// restart starts the part again, as a new session or a restart of WICD does.
func (n *node) restart(t *testing.T) {
	t.Helper()
	n.stop()
	n.start(t)
}

// publish publishes the set of a namespace, as the operator does.
func (n *node) publish(t *testing.T, set policyset.Set) {
	t.Helper()
	text, err := policyset.Encode(set)
	if err != nil {
		t.Fatal(err)
	}
	n.publishText(t, set.Namespace, string(text))
}

func (n *node) publishText(t *testing.T, namespace, text string) {
	t.Helper()
	object := map[string]any{"metadata": map[string]any{"namespace": "operators", "name": namespace}, "spec": map[string]any{"set": text}}
	if err := n.cluster.Put(setsPath+namespace, object); err != nil {
		t.Fatal(err)
	}
}

// runningPod is a pod with its endpoint.
type runningPod struct {
	sim.Pod
	endpoint string
}

func (p runningPod) request() policypipe.Request {
	return policypipe.Request{Namespace: p.Namespace, Name: p.Name, UID: p.UID, ContainerID: p.Sandbox, Addresses: []netip.Addr{p.Address}}
}

// attach creates the endpoint of a new pod.
func (n *node) attach(namespace, name string) runningPod {
	n.made++
	p := sim.Pod{
		Namespace: namespace, Name: name, UID: fmt.Sprintf("uid-%d", n.made), Sandbox: fmt.Sprintf("sandbox-%d", n.made),
		Address: netip.AddrFrom4([4]byte{10, 132, 1, byte(9 + n.made%200)}),
	}
	return runningPod{p, n.windows.AttachPod(n.network, p)}
}

// run starts a pod that has its endpoint, without the CNI plugin, as pods that are older than the enforcement.
func (n *node) run(t *testing.T, namespace, name string) runningPod {
	t.Helper()
	p := n.attach(namespace, name)
	if err := n.windows.RunPod(p.Pod); err != nil {
		t.Fatal(err)
	}
	return p
}

func (n *node) end(t *testing.T, p runningPod) {
	t.Helper()
	if err := n.windows.EndPod(p.endpoint, p.Pod); err != nil {
		t.Fatal(err)
	}
}

// mustAdd starts a pod as containerd does with the CNI plugin.
func (n *node) mustAdd(t *testing.T, p runningPod) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := n.part.Add(ctx, p.request()); err != nil {
		t.Fatalf("adding pod %s: %v", p.Name, err)
	}
	n.expect(t, "when it is added", p, nil)
	if err := n.windows.RunPod(p.Pod); err != nil {
		t.Fatal(err)
	}
}

// wanted returns the rules of a pod by a set.
func (n *node) wanted(p runningPod, set policyset.Set) []hns.ACL {
	var node []netip.Addr
	for _, text := range []string{"192.0.2.10", "10.132.1.1", "10.132.1.254"} {
		node = append(node, netip.MustParseAddr(text))
	}
	facts := policyset.Facts{Node: node, Own: []netip.Addr{p.Address}}
	if n.policies != nil {
		facts.OpenIfTooLarge = n.policies.OpenIfTooLarge
	}
	return policyset.ACLs(set, policyset.PodID{Name: p.Name, UID: p.UID}, facts).ACLs
}

// published returns the set of a namespace in the cluster, and one that closes if it is none.
func (n *node) published(namespace string) policyset.Set {
	var object struct{ Spec struct{ Set string } }
	if !n.cluster.Get(setsPath+namespace, &object) {
		return policyset.Set{Namespace: namespace}
	}
	set, _ := policyset.Decode(namespace, []byte(object.Spec.Set))
	return set
}

// expect checks the rules of a pod against a set, or the published one if it is nil.
func (n *node) expect(t *testing.T, when string, p runningPod, set *policyset.Set) {
	t.Helper()
	if set == nil {
		set = new(n.published(p.Namespace))
	}
	if got, want := n.hns.RulesOf(p.endpoint), n.wanted(p, *set); !hns.SameACLs(got, want) {
		t.Errorf("%s, pod %s/%s has the rules %+v, want %+v", when, p.Namespace, p.Name, got, want)
	}
}

// expectOpen checks that a pod has no rules.
func (n *node) expectOpen(t *testing.T, when string, pods ...runningPod) {
	t.Helper()
	for _, p := range pods {
		if got := n.hns.RulesOf(p.endpoint); len(got) > 0 {
			t.Errorf("%s, pod %s/%s has the rules %+v", when, p.Namespace, p.Name, got)
		}
	}
}

// setOf returns a set with a policy for all listed pods: they accept TCP on one port from 10.0.0.0/8, and send nothing.
func setOf(namespace string, port uint16, pods ...runningPod) policyset.Set {
	both := policyset.Directions{Ingress: true, Egress: true}
	set := policyset.Set{
		Namespace: namespace, Unlisted: both, Addresses: [][]netip.Prefix{{netip.MustParsePrefix("10.0.0.0/8")}},
		Policies: []policyset.Policy{{
			Name: "p", Isolates: both, Ingress: []policyset.Rule{{Peers: new(int), Ports: []policyset.Port{{Protocol: hns.TCP, First: port, Last: port}}}},
		}},
	}
	for _, p := range pods {
		set.Pods = append(set.Pods, policyset.Pod{Name: p.Name, UID: p.UID, Policies: []int{0}})
	}
	slices.SortFunc(set.Pods, func(a, b policyset.Pod) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	return set
}

// files returns the names of the stored sets.
func (n *node) files(t *testing.T) []string {
	t.Helper()
	names, err := n.windows.Disk().List(state.PolicySets)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func (p runningPod) addresses() []netip.Addr { return []netip.Addr{p.Address} }
