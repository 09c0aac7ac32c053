//go:build linux

package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/windows-machine-config/wmco/internal/node/overlay"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/cluster/ovn"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// overlayNodes is the number of nodes that run the overlay, remoteNodes the number of other nodes when one starts.
const (
	overlayNodes = 500
	remoteNodes  = 1000
)

// overlays runs hybrid-overlay-node for many nodes in this process, each with a simulated Host Network Service, against a real
// API server.
type overlays struct {
	*sheet
	set        kubernetes.Interface
	kubeconfig string
	dir        string
	hosts      []*overlayHost
}

type overlayHost struct {
	name string
	hns  *sim.HNS
	stop func()
}

func measureOverlay(ctx context.Context, s *sheet) error {
	s.logf("Starting a control plane")
	l, err := lab.Open(ctx, lab.Options{Progress: s.progress})
	if err != nil {
		return err
	}
	defer l.Close()
	o := &overlays{sheet: s}
	if o.dir, err = os.MkdirTemp("", "wmco-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(o.dir)
	if err := o.prepare(ctx, l); err != nil {
		return err
	}
	defer o.stopAll()
	if err := o.measureChange(ctx); err != nil {
		return err
	}
	return o.measureStart(ctx)
}

// prepare does what OVN-Kubernetes does in a cluster: it grants permissions and approves certificates.
func (o *overlays) prepare(ctx context.Context, l *lab.Lab) (err error) {
	if o.set, err = kubernetes.NewForConfig(l.ControlPlane.RESTConfig()); err != nil {
		return err
	}
	o.kubeconfig = filepath.Join(o.dir, "kubeconfig")
	if err := l.ControlPlane.Kubeconfig(o.kubeconfig); err != nil {
		return err
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "ovn-nodes"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: ovn.Group}},
	}
	if _, err := o.set.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return err
	}
	go o.approve(ctx)
	return nil
}

// approve approves all certificate requests for API clients. Here the requester is an administrator, which OVN-Kubernetes'
// approver would ignore.
func (o *overlays) approve(ctx context.Context) {
	ovn.RunApprover(ctx, o.set, func(r *certificatesv1.CertificateSigningRequest) (ovn.Verdict, string) {
		if len(r.Status.Conditions) > 0 || r.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
			return ovn.LeftAlone, ""
		}
		return ovn.Approved, ""
	}, func(err error) { o.logf("%v", err) })
}

// createNodes creates Nodes with numbers from..to-1. Remote ones run no program here, so they get the router's MAC address that
// it would set.
func (o *overlays) createNodes(ctx context.Context, from, to int, remote bool) error {
	return each(ctx, to-from, func(ctx context.Context, i int) error { return o.createNode(ctx, from+i, remote) })
}

func (o *overlays) createNode(ctx context.Context, i int, remote bool) error {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("win-%d", i), Labels: map[string]string{corev1.LabelOSStable: "windows"},
		Annotations: map[string]string{overlay.SubnetAnnotation: subnetOf(i).String()},
	}}
	if remote {
		n.Annotations[overlay.RouterMACAnnotation] = fmt.Sprintf("00-15-5D-01-%02X-%02X", i/256, i%256)
	}
	_, err := testenv.AddNode(ctx, o.set, n, addressOf(i).String())
	return err
}

func subnetOf(i int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(132 + i/256), byte(i % 256), 0}), 24)
}

func addressOf(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{192, 168, byte(i / 250), byte(i%250 + 1)})
}

// start runs hybrid-overlay-node for one node.
func (o *overlays) start(ctx context.Context, i int) *overlayHost {
	ctx, cancel := context.WithCancel(ctx)
	h := &overlayHost{name: fmt.Sprintf("win-%d", i), hns: sim.NewHNS(sim.HNSOptions{ManagementIP: addressOf(i)})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		overlay.Run(ctx, overlay.Options{
			Node: h.name, BootstrapKubeconfig: o.kubeconfig, CertDir: filepath.Join(o.dir, h.name), CertDuration: 24 * time.Hour,
			HNS: h.hns, Log: slog.New(slog.DiscardHandler),
		})
	}()
	h.stop = func() { cancel(); <-done }
	return h
}

func (o *overlays) stopAll() {
	var work sync.WaitGroup
	for _, h := range o.hosts {
		work.Go(h.stop)
	}
	work.Wait()
	o.hosts = nil
}

// remoteSubnets returns the number of a host's remote subnets, and whether a given one is among them.
func (h *overlayHost) remoteSubnets(subnet netip.Prefix) (count int, ok bool) {
	for _, n := range h.hns.State().Networks {
		if n.Name != overlay.Network {
			continue
		}
		for _, r := range n.Remotes {
			ok = ok || r.Prefix == subnet
		}
		return len(n.Remotes), ok
	}
	return 0, false
}

// measureChange measures how long a change of one node's subnet takes to reach all nodes.
func (o *overlays) measureChange(ctx context.Context) error {
	o.logf("%d nodes start their overlay", overlayNodes)
	if err := o.createNodes(ctx, 0, overlayNodes, false); err != nil {
		return err
	}
	if err := o.createNode(ctx, overlayNodes, true); err != nil {
		return err
	}
	for i := range overlayNodes {
		o.hosts = append(o.hosts, o.start(ctx, i))
	}
	if err := o.await(ctx, "all nodes have each other's subnets", func(h *overlayHost) bool { n, _ := h.remoteSubnets(netip.Prefix{}); return n == overlayNodes }); err != nil {
		return err
	}
	time.Sleep(10 * time.Second) // the programs finish their work after the start
	for _, h := range o.hosts {
		h.hns.ResetCalls()
	}
	changed := netip.MustParsePrefix("10.200.0.0/24")
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, overlay.SubnetAnnotation, changed)
	began := time.Now()
	_, err := o.set.CoreV1().Nodes().Patch(ctx, fmt.Sprintf("win-%d", overlayNodes), types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	if err := o.await(ctx, "all nodes have the changed subnet", func(h *overlayHost) bool { n, got := h.remoteSubnets(changed); return got && n == overlayNodes }); err != nil {
		return err
	}
	o.number("overlay.seconds_500", time.Since(began).Seconds(), "s")
	calls := 0
	for _, h := range o.hosts {
		c := h.hns.Calls()
		calls = max(calls, c["AddRemotes"]+c["RemoveRemotes"]+c["CreateNetwork"]+c["DeleteNetwork"])
	}
	o.number("overlay.changes_per_node", float64(calls), "count")
	return nil
}

// measureStart measures the start of a program in a cluster with a thousand other nodes.
func (o *overlays) measureStart(ctx context.Context) error {
	o.stopAll()
	o.logf("%d more nodes", remoteNodes-overlayNodes)
	if err := o.createNodes(ctx, overlayNodes+1, remoteNodes+1, true); err != nil {
		return err
	}
	began := time.Now()
	h := o.start(ctx, 0) // with its certificate of before, without a network
	o.hosts = []*overlayHost{h}
	if err := o.await(ctx, "the node has all subnets", func(h *overlayHost) bool { n, _ := h.remoteSubnets(netip.Prefix{}); return n == remoteNodes }); err != nil {
		return err
	}
	o.number("overlay.start_seconds_1000", time.Since(began).Seconds(), "s")
	return nil
}

func (o *overlays) await(ctx context.Context, what string, done func(*overlayHost) bool) error {
	const timeout = 10 * time.Minute // hundreds of programs share this machine with the API server
	return poll(ctx, pollInterval/10, timeout, what, func(context.Context) (bool, error) {
		return !slices.ContainsFunc(o.hosts, func(h *overlayHost) bool { return !done(h) }), nil
	})
}
