package overlay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windows-machine-config/wmco/internal/node/overlay"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sim/servers"
)

// env is a cluster with Windows hosts in simulated time. The test plays the role of OVN-Kubernetes' master.
type env struct {
	*testing.T
	cluster *servers.Cluster
	ends    []func()
}

// story runs a test in simulated time.
func story(t *testing.T, test func(e *env)) {
	synctest.Test(t, func(t *testing.T) {
		c, err := servers.NewIsolatedCluster()
		if err != nil {
			t.Fatal(err)
		}
		e := &env{T: t, cluster: c, ends: []func(){c.Close}}
		defer func() { // within the simulated time, even after Fatal
			for _, end := range slices.Backward(e.ends) {
				end()
			}
		}()
		test(e)
	})
}

func nodePath(name string) string { return "/api/v1/nodes/" + name }

// node creates a Node like the kubelet and the master.
func (e *env) node(name, system, ip string, annotations map[string]string) {
	e.Helper()
	err := e.cluster.Put(nodePath(name), map[string]any{
		"metadata": map[string]any{"name": name, "labels": map[string]string{"kubernetes.io/os": system}, "annotations": annotations},
		"status": map[string]any{
			"addresses": []any{map[string]string{"type": "Hostname", "address": name}, map[string]string{"type": "InternalIP", "address": ip}},
			"nodeInfo":  map[string]string{"machineID": "that of the image"}, // hosts are copies of one another
		},
	})
	if err != nil {
		e.Fatal(err)
	}
}

// linux creates the Node of a Linux host, whose subnet is 10.128.<i>.0/24.
func (e *env) linux(i int) {
	e.Helper()
	e.node(fmt.Sprintf("linux-%d", i), "linux", fmt.Sprintf("192.0.%d.%d", 100+i/200, 1+i%200), linuxAnnotations(i))
}

func linuxAnnotations(i int) map[string]string {
	subnet := netip.AddrFrom4([4]byte{10, byte(128 + i/256), byte(i), 0})
	return map[string]string{
		overlay.LinuxSubnetsAnnotation: fmt.Sprintf(`{"default":["%s/24"]}`, subnet),
		overlay.RouterMACAnnotation:    fmt.Sprintf("0a:58:0a:80:%02x:%02x", i/256, i%256),
	}
}

// linuxRemote returns the remote subnet of the Linux host.
func linuxRemote(i int) hns.RemoteSubnet {
	return hns.RemoteSubnet{
		Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(128 + i/256), byte(i), 0}), 24), VNI: overlay.VNI,
		Host:      netip.AddrFrom4([4]byte{192, 0, byte(100 + i/200), byte(1 + i%200)}),
		RouterMAC: fmt.Sprintf("0A-58-0A-80-%02X-%02X", i/256, i%256),
	}
}

// host is a Windows host on which the program runs.
type host struct {
	env     *env
	node    string
	service *sim.HNS
	options overlay.Options
	log     *logBuffer
	stop    func()
}

// windows creates Windows host number i with its Node. The program does not run yet.
func (e *env) windows(i int, o sim.HNSOptions) *host {
	e.Helper()
	ip := netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
	o.ManagementIP = ip
	h := &host{env: e, node: fmt.Sprintf("win-%d", i), service: sim.NewHNS(o), log: &logBuffer{}, stop: func() {}}
	folder := e.TempDir()
	kubeconfig := filepath.Join(folder, "kubeconfig")
	content, err := json.Marshal(map[string]any{
		"clusters": []any{map[string]any{"cluster": map[string]any{"server": e.cluster.URL, "certificate-authority-data": []byte(e.cluster.CA)}}},
		"users":    []any{map[string]any{"user": map[string]any{"token": e.cluster.Token}}},
	})
	if err == nil {
		err = os.WriteFile(kubeconfig, content, 0o600)
	}
	if err != nil {
		e.Fatal(err)
	}
	h.options = overlay.Options{
		Node: h.node, BootstrapKubeconfig: kubeconfig, CertDir: filepath.Join(folder, "config"), CertDuration: 24 * time.Hour,
		HNS: h.service, Log: slog.New(slog.NewJSONHandler(h.log, nil)), Dial: e.cluster.Dial,
	}
	e.node(h.node, "windows", ip.String(), map[string]string{overlay.SubnetAnnotation: fmt.Sprintf("10.132.%d.0/24", i)})
	return h
}

// start starts the program; it stops at the end of the test, or when stop is called.
func (h *host) start() *host {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { overlay.Run(ctx, h.options) })
	h.stop = func() { cancel(); done.Wait() }
	h.env.ends = append(h.env.ends, h.stop)
	return h
}

// overlaid returns a host on which the overlay is complete, in a cluster with this many Linux nodes.
func (e *env) overlaid(linux int) *host {
	e.Helper()
	for i := range linux {
		e.linux(1 + i)
	}
	h := e.windows(1, sim.HNSOptions{}).start()
	e.await(time.Minute, "the overlay is configured", func() bool { return h.published() && h.has(linuxRemotes(linux + 1)[1:]...) })
	return h
}

// await waits, in simulated time, until a condition holds.
func (e *env) await(within time.Duration, what string, holds func() bool) {
	e.Helper()
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		synctest.Wait()
		if holds() {
			return
		}
		if time.Since(began) > within {
			e.Fatalf("not within %v: %s", within, what)
		}
	}
}

// passes lets time pass.
func (e *env) passes(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// network returns the host's network of that name, and reports whether there is exactly one.
func (h *host) network(name string) (found hns.Network, once bool) {
	n := 0
	for _, got := range h.service.State().Networks {
		if got.Name == name {
			found = got
			n++
		}
	}
	return found, n == 1
}

// has reports whether the host has both networks and exactly these remotes.
func (h *host) has(remotes ...hns.RemoteSubnet) bool {
	_, base := h.network(overlay.BaseNetwork)
	n, pods := h.network(overlay.Network)
	remotes = slices.Clone(remotes)
	slices.SortFunc(remotes, func(a, b hns.RemoteSubnet) int { return a.Prefix.Compare(b.Prefix) })
	return base && pods && slices.Equal(n.Remotes, remotes)
}

// remote returns the remote subnet that other hosts need for this one.
func (h *host) remote() hns.RemoteSubnet {
	n, _ := h.network(overlay.Network)
	return hns.RemoteSubnet{Prefix: n.Subnets[0].Prefix, VNI: overlay.VNI, Host: n.ManagementIP, RouterMAC: n.RouterMAC}
}

// published reports whether the Node has the address of the host's router.
func (h *host) published() bool {
	n, _ := h.network(overlay.Network)
	return n.RouterMAC != "" && h.env.annotation(h.node, overlay.RouterMACAnnotation) == n.RouterMAC
}

func (e *env) annotation(node, name string) string {
	var got struct {
		Metadata struct{ Annotations map[string]string }
	}
	e.cluster.Get(nodePath(node), &got)
	return got.Metadata.Annotations[name]
}

func (e *env) annotate(node, name, value string) {
	e.cluster.Patch(nodePath(node), map[string]any{"metadata": map[string]any{"annotations": map[string]any{name: value}}})
}

// changes returns the calls since the last ResetCalls that changed something.
func (h *host) changes() map[string]int {
	calls := h.service.Calls()
	delete(calls, "Networks")
	delete(calls, "HasNetwork")
	return calls
}

// wantChanges fails the test unless exactly these calls changed something.
func (h *host) wantChanges(want map[string]int) {
	h.env.Helper()
	if got := h.changes(); !maps.Equal(got, want) {
		h.env.Errorf("calls that change something: %v, want %v", got, want)
	}
}

func compared() cmp.Option {
	return cmp.Options{
		cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{}), cmpopts.EquateEmpty(), cmpopts.IgnoreFields(hns.Network{}, "ID"),
		cmpopts.SortSlices(func(a, b hns.Network) bool { return a.Name < b.Name }),
	}
}

// logBuffer keeps a log.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// count returns how often a text is in the log.
func (b *logBuffer) count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.text.String(), text)
}

// String implements fmt.Stringer.
func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// linuxRemotes returns the remote subnets of the first Linux hosts.
func linuxRemotes(hosts int) (all []hns.RemoteSubnet) {
	for i := range hosts {
		all = append(all, linuxRemote(i))
	}
	return all
}
