package storytest

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"google.golang.org/grpc/test/bufconn"
	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/hostnetwork"
	"github.com/windows-machine-config/wmco/internal/node/overlay"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/instance"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/operator/remote"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sim/servers"
	"github.com/windows-machine-config/wmco/payload"
	"github.com/windows-machine-config/wmco/payload/build"
)

// quirky is a host with quirks, its cluster, and the operator's knowledge of it.
type quirky struct {
	*testing.T
	cluster *servers.Cluster
	host    *sim.Host
	network *bufconn.Listener // of the host
	adapter *sim.HostAdapter
	key     ssh.Signer
	content *payload.Payload
	want    join.Want
	// node is the last known name of its Node.
	node string
	// rebootedFrom is the host's boot ID when its restart was requested.
	rebootedFrom string
}

func joinWithQuirks(t *testing.T, content *payload.Payload, build windowsbuild.Build, quirks sim.Quirks) joined {
	t.Helper()
	q := newQuirky(t, content, build, quirks)
	defer q.close()
	o := q.join()
	o.restarts, o.disturbed = q.host.Windows().RestartsRequested()
	o.deleted, o.hasAddress = q.host.Windows().HNS().Calls()["DeleteNetwork"], q.adapter.HasAddress()
	return o
}

func newQuirky(t *testing.T, content *payload.Payload, build windowsbuild.Build, quirks sim.Quirks) *quirky {
	t.Helper()
	q := &quirky{T: t, content: content}
	var err error
	if q.cluster, err = servers.NewIsolatedCluster(); err != nil {
		t.Fatal(err)
	}
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	if q.key, err = ssh.NewSignerFromKey(key); err != nil {
		t.Fatal(err)
	}
	root, err := os.MkdirTemp("/dev/shm", "wicd-test-")
	if err != nil {
		t.Fatal(err)
	}
	q.host, err = sim.Start(context.Background(), sim.Options{
		Windows: sim.WindowsOptions{
			Root: root, Hostname: "win-1", Build: int(build), UBR: 9999, Address: "192.0.2.10", BootTime: 30 * time.Second, Dial: q.cluster.Dial, Quirks: quirks,
			Features: map[string]wicdapi.FeatureState{desired.ContainersFeature: wicdapi.FeatureDisabled, desired.HyperVFeature: wicdapi.FeatureDisabled},
			Programs: map[string]sim.Program{desired.OverlayService: q.overlay},
		},
		Listen:         q.listen,
		AuthorizedKeys: []ssh.PublicKey{q.key.PublicKey()},
	})
	if err != nil {
		t.Fatal(err)
	}
	q.adapter = q.host.Windows().HNS().On(quirks.Adapter)
	q.want = q.render()
	return q
}

func (q *quirky) close() {
	for _, log := range []string{`C:\var\log\hybrid-overlay\hybrid-overlay.log`, `C:\var\log\wicd\wicd.log`} {
		if text, err := os.ReadFile(q.host.Windows().Disk().Local(log)); q.Failed() {
			q.Logf("%s (%v): %s", log, err, text[max(0, len(text)-3000):])
		}
	}
	root := q.host.Windows().Disk().Root
	q.host.Close()
	q.cluster.Close()
	_ = os.RemoveAll(root)
}

func (q *quirky) listen() (net.Listener, error) {
	q.network = bufconn.Listen(64 << 10)
	return q.network, nil
}

// overlay runs hybrid-overlay-node as a service of the simulated host. It gets its own kubeconfig, because the kubelet's contains Windows paths.
func (q *quirky) overlay(ctx context.Context, p sim.Process) uint32 {
	if q.host.Windows().HNSState()["DeviceLessNicDisabled"] == 1 {
		q.adapter.DisableDeviceLess()
	}
	identity := q.host.Windows().Disk().Local(`C:\overlay.conf`)
	if err := os.WriteFile(identity, q.kubeconfig(), 0o600); err != nil {
		return 1
	}
	var args []string
	for _, arg := range words(p.Command) {
		name, value, _ := strings.Cut(arg, "=")
		switch {
		case name == "--bootstrap-kubeconfig":
			arg = name + "=" + identity
		case strings.HasPrefix(value, `C:\`):
			arg = name + "=" + p.Host.Disk.Local(value)
		case strings.HasPrefix(arg, `C:\`):
			arg = p.Host.Disk.Local(arg)
		}
		args = append(args, arg)
	}
	return uint32(overlay.Main(ctx, overlay.Call{
		Args: args[1:], Stdout: io.Discard, Stderr: io.Discard, Dial: q.cluster.Dial,
		HNS:      func() (overlay.HNS, error) { return q.adapter, nil },
		Adapters: q.adapter, Routes: noRoutes{},
		Serve: func(run func(context.Context)) error { run(ctx); return nil },
	}))
}

// words splits a command line at spaces outside quotes.
func words(command string) (list []string) {
	quoted := false
	word := strings.FieldsFunc(command, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return r == ' ' && !quoted
	})
	for _, w := range word {
		list = append(list, strings.ReplaceAll(w, `"`, ""))
	}
	return list
}

func (q *quirky) kubeconfig() []byte {
	text, err := json.Marshal(map[string]any{
		"clusters": []any{map[string]any{"cluster": map[string]any{"server": q.cluster.URL, "certificate-authority-data": []byte(q.cluster.CA)}}},
		"users":    []any{map[string]any{"user": map[string]any{"token": q.cluster.Token}}},
	})
	if err != nil {
		panic(err)
	}
	return text
}

// render renders the node settings that the operator would publish.
func (q *quirky) render() join.Want {
	q.Helper()
	cluster := desired.Cluster{
		ID: "0f0e", Server: q.cluster.URL, CA: q.cluster.CA, KubeletClientCA: q.cluster.CA,
		ServiceCIDRs: []string{"172.30.0.0/16"}, DNSServers: []string{"172.30.0.10"}, Domain: "cluster.local",
		Network: q.podNetwork(),
	}
	rendered, err := desired.Render(desired.Inputs{
		Version: "0.1.0-k1.36-quirks", Payload: q.content.Manifest, Cluster: cluster,
		Config: v1alpha1.WindowsConfigSpec{Network: v1alpha1.NetworkSpec{Provider: v1alpha1.NetworkOVNHybridOverlay}},
	})
	if err != nil {
		q.Fatal(err)
	}
	return join.Want{Cluster: cluster, Node: rendered.Node, Secrets: rendered.Secrets}
}

func (q *quirky) podNetwork() desired.ClusterNetwork {
	return desired.ClusterNetwork{
		PodCIDRs: []string{"10.128.0.0/14"}, HybridCIDRs: []string{"10.132.0.0/14"}, HostPrefixes: map[string]int{"10.132.0.0/14": 24},
	}
}

// join repeats the join as the instance controller does, until the node is Ready, only an administrator can help, or the deadline has passed.
func (q *quirky) join() (o joined) {
	began := time.Now()
	deadline := began.Add(quirksTimeout)
	pause := backoff.Between(5*time.Second, 2*time.Minute)
	for time.Now().Before(deadline) {
		ctx, cancel := context.WithDeadline(q.Context(), deadline)
		err := q.attempt(ctx)
		cancel()
		if o.reason = join.Reason(err); err != nil {
			o.message = err.Error()
		}
		if err == nil {
			q.rebootedFrom = ""
			since, reason := q.awaitReady(deadline)
			o.ready, o.reason, o.after = !since.IsZero(), reason, since.Sub(began)
			return o
		}
		q.Logf("%s before the end, %s: %v", time.Until(deadline).Round(time.Second), o.reason, err)
		var rebooting *join.Rebooting
		if errors.As(err, &rebooting) {
			q.rebootedFrom = cmp.Or(rebooting.BootID, q.rebootedFrom)
		}
		after, ok := join.Retry(err)
		if !ok {
			after = pause.Next()
		}
		time.Sleep(after)
	}
	return o
}

func (q *quirky) attempt(ctx context.Context) error {
	job := join.Job{
		Visit: join.Visit{
			Host: q, Payload: q.content, Content: q.content.Manifest, Observer: unobserved{}, Now: time.Now,
		},
		Transfer:  join.Transfer{TakeSlot: func() (io.Closer, error) { return io.NopCloser(nil), nil }},
		Cluster:   q,
		Namespace: api.DefaultNamespace,
	}
	err := job.Run(ctx)
	if err != nil && q.rebootedFrom != "" {
		err = join.Restarting(err, q.rebootedFrom)
	}
	return err
}

// awaitReady waits until the Node has been Ready for some minutes, and assigns the subnet as OVN-Kubernetes would.
func (q *quirky) awaitReady(deadline time.Time) (since time.Time, reason string) {
	const steady = 3 * time.Minute
	for ; time.Now().Before(deadline); time.Sleep(time.Second) {
		var node corev1.Node
		if q.cluster.Get(q.path(), &node); node.Name == "" {
			reason = "NodeMissing"
			continue
		}
		if node.Annotations[overlay.SubnetAnnotation] == "" {
			q.cluster.Patch(q.path(), map[string]any{"metadata": map[string]any{"annotations": map[string]any{overlay.SubnetAnnotation: "10.132.7.0/24"}}})
		}
		if nodestate.IsReady(&node) && node.Annotations[api.AnnotationVersion] != "" {
			if since.IsZero() {
				since = time.Now()
			}
			if time.Since(since) > steady {
				return since, ""
			}
			continue
		}
		since, reason = time.Time{}, "NodeNotReady"
		for _, c := range node.Status.Conditions {
			if c.Type == api.ConditionWindowsNetworkUnavailable && c.Status == corev1.ConditionTrue {
				reason = c.Reason
			}
		}
	}
	return time.Time{}, reason
}

func (q *quirky) path() string { return "/api/v1/nodes/" + q.node }

// Connect implements join.Connector.
func (q *quirky) Connect(ctx context.Context) (join.Host, error) {
	host, err := instance.Dial(ctx, remote.Target{Address: "192.0.2.10", User: "Administrator", Key: q.key}, remote.Options{
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return q.network.DialContext(ctx) },
	})
	if err != nil {
		return nil, &join.Unreachable{Reason: api.ReasonConnectionRefused, Err: err}
	}
	return host, nil
}

// Known implements join.Cluster.
func (q *quirky) Known(context.Context) (desired.Cluster, error) { return q.want.Cluster, nil }

// Identify implements join.Cluster.
func (q *quirky) Identify(_ context.Context, f wicdapi.Facts) (join.Identity, error) {
	if q.rebootedFrom != "" && q.rebootedFrom == f.Host.BootID {
		return join.Identity{}, &join.Rebooting{Reason: "Windows has not shut down yet", BootID: q.rebootedFrom, Awaited: true}
	}
	var node corev1.Node
	q.cluster.Get("/api/v1/nodes/"+join.NodeName(f), &node)
	return join.Identity{Unregistered: node.Name == ""}, nil
}

// Accept implements join.Cluster.
func (q *quirky) Accept(_ context.Context, f wicdapi.Facts) error {
	q.node = join.NodeName(f)
	return nil
}

// Desired implements join.Cluster.
func (q *quirky) Desired(context.Context) (join.Want, error) { return q.want, nil }

// Token implements join.Cluster.
func (q *quirky) Token(context.Context) (string, error) { return q.cluster.Token, nil }

// unobserved ignores all progress.
type unobserved struct{}

func (unobserved) Progress(join.Progress) {}
func (unobserved) Altered([]string)       {}

// quirksPayload writes and opens a small payload.
func quirksPayload(t *testing.T) *payload.Payload {
	t.Helper()
	set := build.Set{Fast: true, Stub: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("stub")), nil }}
	for _, path := range []string{"kubelet.exe", "kube-log-runner.exe", "kube-proxy.exe", "containerd/containerd.exe", "hybrid-overlay-node.exe", payload.WICD} {
		set.Files = append(set.Files, build.Content{
			Path: path, Component: path, Version: "simulated", Group: payload.Base, Open: build.Bytes(incompressible(path)),
		})
	}
	dir := t.TempDir()
	if _, err := build.Write(t.Context(), dir, set); err != nil {
		t.Fatal(err)
	}
	p, err := payload.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// incompressible returns 64 KiB that depend on a name.
func incompressible(name string) []byte {
	b := make([]byte, 64<<10)
	_, _ = rand.NewChaCha8(sha256.Sum256([]byte(name))).Read(b) // never fails
	return b
}

// noRoutes implements the route functions for a host without configured routes.
type noRoutes struct{}

func (noRoutes) Routes(context.Context, netip.Addr) ([]hostnetwork.Route, error) { return nil, nil }
func (noRoutes) PersistentRoutes(context.Context, netip.Addr) ([]hostnetwork.Route, error) {
	return nil, nil
}
func (noRoutes) AddRoute(context.Context, netip.Addr, hostnetwork.Route) error { return nil }
