//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/apiclient"
	"github.com/windows-machine-config/wmco/internal/node/daemon/nodestatus"
	"github.com/windows-machine-config/wmco/internal/node/daemon/podpolicy"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/identity"
	"github.com/windows-machine-config/wmco/internal/node/kubeapi"
	"github.com/windows-machine-config/wmco/internal/node/policypipe"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// policyNode is a node with a simulated Windows, on which only the part of WICD runs that enforces NetworkPolicies. It has WICD's rights at
// the API server.
type policyNode struct {
	windows *sim.Windows
	network string // ID
	// endpoints are those of the node's pods, by namespace.
	endpoints map[string][]string
	part      *podpolicy.Reconciler
	client    *kubeapi.Client
	// received counts the bytes of responses of the API server.
	received atomic.Int64
	stop     func()
	root     string

	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer for the log.
func (n *policyNode) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

// log returns the end of the log.
func (n *policyNode) log() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return string(n.text.Bytes()[max(0, n.text.Len()-4000):])
}

// startNode starts the first node, whose pods already run.
func (p *policyCluster) startNode(ctx context.Context) (n *policyNode, err error) {
	n = &policyNode{endpoints: map[string][]string{}, stop: func() {}}
	if n.root, err = os.MkdirTemp("", "wmco-bench-"); err != nil {
		return nil, err
	}
	n.windows = sim.NewWindows(sim.WindowsOptions{Root: n.root, Hostname: policyNodeName(0), NoQuirks: comparableResults})
	added := n.windows.HNS().Add(hns.State{Networks: []hns.Network{{
		Name: networkOfPolicies, Type: hns.Overlay, ManagementIP: addressOf(0),
		Subnets: []hns.Subnet{{Prefix: netip.MustParsePrefix("10.100.0.0/24"), Gateway: netip.MustParseAddr("10.100.0.1")}},
	}}})
	n.network = added.Networks[0].ID
	pods, err := p.Clients.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + policyNodeName(0)})
	if err != nil {
		n.close()
		return nil, err
	}
	for _, pod := range pods.Items {
		if err := n.run(sim.Pod{
			Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Sandbox: "sandbox-" + pod.Name, Address: netip.MustParseAddr(pod.Status.PodIP),
		}); err != nil {
			n.close()
			return nil, err
		}
	}
	if err := n.connect(p.stage); err != nil {
		n.close()
		return nil, err
	}
	n.start()
	return n, nil
}

// networkOfPolicies is the name of the pod network.
const networkOfPolicies = "overlay"

// connect creates a client with the rights of WICD, which counts what it receives.
func (n *policyNode) connect(st *stage) error {
	plane := st.Lab.ControlPlane
	pair, err := plane.Issue(pkix.Name{CommonName: api.WICDUserPrefix + policyNodeName(0), Organization: []string{api.WICDGroup}})
	if err != nil {
		return err
	}
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return err
	}
	n.client, err = kubeapi.New(kubeapi.Options{
		Server: identity.Server{Address: plane.RESTConfig().Host, CA: plane.CA()}, Certificate: &certificate,
		Wrap: func(next http.RoundTripper) http.RoundTripper { return countingTransport{next, &n.received} },
	})
	return err
}

// start starts the part as a session of WICD does, with the server of the network plugin.
func (n *policyNode) start() {
	s := state.Session{
		Host: n.windows.Host(), Log: slog.New(slog.NewTextHandler(n, nil)),
		Record: state.Record{JoinRequest: wicdapi.JoinRequest{
			Namespace: api.DefaultNamespace, Local: desired.Local{Node: policyNodeName(0), NodeIP: addressOf(0).String()},
		}},
		Wanted: desired.Node{Policies: &desired.Policies{Mode: desired.PolicyEnforce}, Network: &desired.Network{Name: networkOfPolicies, Endpoint: "VIPEndpoint"}},
	}
	n.part = podpolicy.New(s, state.NewSignal(), &nodestatus.Metrics{Session: s})
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	part := n.part
	work.Go(func() { part.Run(ctx) })
	work.Go(func() { part.Follow(ctx, &apiclient.Client{Client: n.client}) })
	n.stop = func() { cancel(); work.Wait() }
}

func (n *policyNode) close() {
	n.stop()
	if n.client != nil {
		n.client.Close()
	}
	n.windows.PowerOff()
	_ = os.RemoveAll(n.root)
}

// run starts a pod without the network plugin, as pods that are older than the enforcement.
func (n *policyNode) run(p sim.Pod) error {
	n.endpoints[p.Namespace] = append(n.endpoints[p.Namespace], n.windows.AttachPod(n.network, p))
	return n.windows.RunPod(p)
}

// all returns the endpoints of all pods.
func (n *policyNode) all() (all []string) {
	for _, some := range n.endpoints {
		all = append(all, some...)
	}
	return all
}

// acceptsOn matches the rules of an endpoint that accepts connections on a port.
func acceptsOn(port uint16) func(hns.ACL) bool {
	return func(a hns.ACL) bool {
		return a.Action == hns.Allow && a.Direction == hns.In &&
			slices.ContainsFunc(a.LocalPorts, func(r hns.PortRange) bool { return r.First <= port && port <= r.Last })
	}
}

// acceptsFrom matches the rules of an endpoint that accepts connections from an address on some ports; sendsTo, those that it may open.
func acceptsFrom(address netip.Addr) func(hns.ACL) bool { return allows(hns.In, address) }
func sendsTo(address netip.Addr) func(hns.ACL) bool     { return allows(hns.Out, address) }

func allows(direction hns.Direction, address netip.Addr) func(hns.ACL) bool {
	return func(a hns.ACL) bool {
		return a.Action == hns.Allow && a.Direction == direction && slices.ContainsFunc(a.Remote, func(p netip.Prefix) bool { return p.Contains(address) })
	}
}

// await waits until all endpoints have a rule, and awaitNone until none has.
func (n *policyNode) await(ctx context.Context, what string, endpoints []string, rule func(hns.ACL) bool) error {
	return n.poll(ctx, what, endpoints, func(rules []hns.ACL) bool { return slices.ContainsFunc(rules, rule) })
}

func (n *policyNode) awaitNone(ctx context.Context, what string, endpoints []string, rule func(hns.ACL) bool) error {
	return n.poll(ctx, what, endpoints, func(rules []hns.ACL) bool { return !slices.ContainsFunc(rules, rule) })
}

// poll looks often enough to add only milliseconds to a time. It reads one endpoint at a time: rules of all are megabytes.
func (n *policyNode) poll(ctx context.Context, what string, endpoints []string, holds func([]hns.ACL) bool) error {
	return poll(ctx, 5*time.Millisecond, policyTimeout, what, func(context.Context) (bool, error) {
		for len(endpoints) > 0 && holds(n.windows.HNS().RulesOf(endpoints[0])) {
			endpoints = endpoints[1:]
		}
		return len(endpoints) == 0, nil
	})
}

// awaitRules waits until all pods have the rules of their policies, and nothing else closes them.
func (n *policyNode) awaitRules(ctx context.Context) error {
	return n.await(ctx, "all pods have the rules of their policies", n.all(), acceptsOn(8443))
}

// ask asks WICD about a pod whose network exists, as the network plugin does, and returns how long that took.
func (n *policyNode) ask(ctx context.Context, pipe string, p sim.Pod) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, policypipe.CallTimeout)
	defer cancel()
	began := time.Now()
	conn, err := n.windows.DialPipe(ctx, pipe)
	if err != nil {
		return 0, err
	}
	err = policypipe.Call(ctx, conn, policypipe.Request{
		Namespace: p.Namespace, Name: p.Name, UID: p.UID, ContainerID: p.Sandbox, Addresses: []netip.Addr{p.Address},
	})
	if err != nil {
		return 0, fmt.Errorf("asking WICD about pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	return time.Since(began), nil
}

// countingTransport counts the bytes of response bodies.
type countingTransport struct {
	next  http.RoundTripper
	count *atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (t countingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(r)
	if err == nil {
		response.Body = countingBody{response.Body, t.count}
	}
	return response, err
}

type countingBody struct {
	io.ReadCloser
	count *atomic.Int64
}

// Read implements io.Reader.
func (b countingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.count.Add(int64(n))
	return n, err
}
