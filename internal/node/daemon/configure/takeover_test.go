package configure_test

import (
	"context"
	"encoding/pem"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// originals returns the services of a host that the original operator configured, in start order.
func originals() []desired.Service {
	const runner = `C:\k\kube-log-runner.exe -log-file=C:\var\log\`
	return []desired.Service{
		daemontest.Service("containerd", `C:\k\containerd\containerd.exe --config C:\k\containerd\containerd_conf.toml --run-service`),
		daemontest.Service("kubelet", runner+`kubelet\kubelet.log C:\k\kubelet.exe --config=C:\k\kubelet.conf --bootstrap-kubeconfig=C:\k\bootstrap-kubeconfig --kubeconfig=C:\k\kubeconfig`, "containerd"),
		daemontest.Service("hybrid-overlay-node", `C:\k\hybrid-overlay-node.exe --node win-1 --windows-service`, "kubelet"),
		daemontest.Service("kube-proxy", runner+`kube-proxy\kube-proxy.log C:\k\kube-proxy.exe --config C:\k\kube-proxy.conf`, "hybrid-overlay-node"),
		daemontest.Service("csi-proxy", `C:\k\csi-proxy.exe -windows-service`),
		daemontest.Service("windows_exporter", `C:\k\windows_exporter.exe --web.config.file C:\k\tls\windows-exporter-webconfig.yaml`),
		daemontest.Service(api.WICDService, `C:\k\windows-instance-config-daemon.exe controller --windows-service --kubeconfig C:\k\wicd-kubeconfig`),
	}
}

// originalsFiles returns the files that are obsolete after the takeover.
func originalsFiles() []string {
	return []string{
		`C:\k\hybrid-overlay-node.exe`, `C:\k\kube-proxy.exe`, `C:\k\csi-proxy.exe`, `C:\k\windows_exporter.exe`, `C:\k\ecr-credential-provider.exe`,
		`C:\k\azure-cloud-node-manager.exe`, `C:\k\cni\win-bridge.exe`, `C:\k\credential-provider-config.yaml`, `C:\k\cloud.conf`, `C:\k\kube-proxy.conf`,
		`C:\k\bootstrap-ca.crt`, `C:\k\ca-bundle.crt`, `C:\k\imported-certs.pem`, `C:\k\wicd-kubeconfig`, `C:\k\tls\certs\tls.key`, `C:\k\tls\certs\tls.crt`,
		`C:\k\tls\windows-exporter-webconfig.yaml`, `C:\k\cni\config\ovnkube-client-2026-11-20-10-00-00.pem`, `C:\k\cni\config\ovnkube-client-current.pem`,
		`C:\k\containerd\registries\docker.io\hosts.toml`,
		`C:\Temp\network-conf.ps1`, `C:\Temp\hns.psm1`, `C:\Temp\gcp-get-hostname.ps1`, `C:\Temp\windows-defender-exclusion.ps1`,
	}
}

// original is a host that the original operator configured.
type original struct {
	*sim.Windows
	// kubelets counts the starts of the kubelet, containerds those of containerd.
	kubelets, containerds atomic.Int64
}

func newOriginal(t *testing.T) *original {
	t.Helper()
	o := &original{}
	counted := func(n *atomic.Int64) sim.Program {
		return func(ctx context.Context, _ sim.Process) uint32 { n.Add(1); <-ctx.Done(); return 0 }
	}
	o.Windows = daemontest.NewWindows(t, sim.WindowsOptions{RestartDelay: daemontest.Never, Startup: map[string]time.Duration{"containerd": 20 * time.Second}, Programs: map[string]sim.Program{
		"kubelet": counted(&o.kubelets), "containerd": counted(&o.containerds), api.WICDService: originalsDaemon,
	}})
	files := append(originalsFiles(), `C:\k\kubelet.exe`, `C:\k\kube-log-runner.exe`, `C:\k\containerd\containerd.exe`, `C:\k\windows-instance-config-daemon.exe`,
		`C:\k\kubeconfig`, `C:\k\bootstrap-kubeconfig`, `C:\k\cni\config\cni.conf`, `C:\k\containerd\registries\quay.io\hosts.toml`,
		`C:\var\log\hybrid-overlay\hybrid-overlay.log`, `C:\data\important.txt`)
	for _, name := range files {
		daemontest.MustWrite(t, o.Disk(), name, "the original's")
	}
	authority := daemontest.OtherAuthority(t)
	daemontest.MustWrite(t, o.Disk(), `C:\k\imported-certs.pem`, authority)
	block, _ := pem.Decode([]byte(authority))
	h := o.Host()
	if _, err := h.Certificates.Add(t.Context(), block.Bytes); err != nil {
		t.Fatal(err)
	}
	o.SetVariable("HTTP_PROXY", "http://the.originals")
	o.EditDefender(func(d *sim.Defender) {
		d.Set = foreignExclusions().And(desired.Exclusions{Processes: []string{`C:\k\containerd\containerd.exe`}})
	})
	for _, s := range originals() {
		if _, err := h.Services.Put(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if err := h.Services.Start(t.Context(), s.Name); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// originalsDaemon reverts changes as long as it runs the original's command.
func originalsDaemon(ctx context.Context, p sim.Process) uint32 {
	if !strings.Contains(p.Command, " controller ") {
		<-ctx.Done()
		return 0
	}
	for ctx.Err() == nil {
		_, _ = p.Host.Environment.Set(ctx, map[string]string{"HTTP_PROXY": "http://the.originals"}, nil)
		for _, s := range originals() {
			if s.Name == api.WICDService {
				continue
			}
			if changed, err := p.Host.Services.Put(ctx, s); err == nil && changed {
				_ = p.Host.Services.Stop(ctx, s.Name)
			}
			_ = p.Host.Services.Start(ctx, s.Name)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	return 0
}

// takeOverRequest returns the join request for such a host.
func takeOverRequest(c *daemontest.Payload) wicdapi.JoinRequest {
	r := daemontest.NewRequest(c)
	r.Desired.WatchedEnvironment = []string{"HTTP_PROXY"}
	r.Desired.Files = append(r.Desired.Files, desired.File{Path: daemontest.PlainFile, Content: "mirrors"})
	return r
}

// expectTakenOver checks that nothing of the original operator remains, even after the interval of its daemon.
func (o *original) expectTakenOver(t *testing.T, r wicdapi.JoinRequest) {
	t.Helper()
	time.Sleep(time.Minute)
	daemontest.ExpectJoined(t, o.Windows, r)
	services, err := o.Host().Services.List(t.Context(), nil)
	if err != nil || len(services) != len(r.Desired.Services) {
		t.Errorf("there are %d services, %v", len(services), err)
	}
	for _, name := range append(originalsFiles(), `C:\Temp`, `C:\k\tls`, `C:\k\containerd\registries\docker.io`, desired.State+`\original-operator`) {
		if o.Disk().Exists(name) {
			t.Errorf("%s exists", name)
		}
	}
	for _, name := range []string{`C:\data\important.txt`, `C:\var\log\hybrid-overlay\hybrid-overlay.log`, `C:\k\kubelet.exe`} {
		if !o.Disk().Exists(name) {
			t.Errorf("%s was removed", name)
		}
	}
	if value, found := o.Environment()["HTTP_PROXY"]; found {
		t.Errorf("the machine has HTTP_PROXY=%s", value)
	}
	expectExclusions(t, o.Windows, foreignExclusions().And(r.Desired.Exclusions))
	if trusted, err := o.Host().Certificates.List(t.Context()); err != nil || len(trusted) != 0 {
		t.Errorf("the machine trusts %q, %v", trusted, err)
	}
}

// TestHostOfOriginalOperatorIsTakenOverInOneStep has a running original daemon, which reverts changes.
func TestHostOfOriginalOperatorIsTakenOverInOneStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c := newOriginal(t), daemontest.NewPayload("1")
		time.Sleep(10 * time.Second)
		if o.kubelets.Load() != 1 || o.containerds.Load() != 1 || o.Service("kube-proxy").State != hostapi.Running {
			t.Fatalf("the original's kubelet started %d times, containerd %d times", o.kubelets.Load(), o.containerds.Load())
		}
		daemontest.MustSend(t, o.Windows, c)
		r := takeOverRequest(c)
		result := daemontest.MustJoin(t, o.Windows, r)
		o.expectTakenOver(t, r)
		if o.kubelets.Load() != 2 || o.containerds.Load() != 2 {
			t.Errorf("the kubelet started %d times, containerd %d times, want twice: once before, once after", o.kubelets.Load(), o.containerds.Load())
		}
		if !slices.ContainsFunc(result.Changed, func(line string) bool { return strings.HasPrefix(line, "the original operator configured this host") }) {
			t.Errorf("the takeover is not reported: %q", result.Changed)
		}
		daemontest.ExpectNoChange(t, o.Windows, r)
		daemontest.MustLeave(t, o.Windows, r.Cluster)
		if left, _ := o.Disk().List(`C:\k`); !slices.Equal(left, []string{"state"}) {
			t.Errorf("after the leave, C:\\k has %q", left)
		}
	})
}

func TestInterruptedTakeoverConverges(t *testing.T) {
	c := daemontest.NewPayload("1")
	r := takeOverRequest(c)
	for at := 0; ; at++ {
		isCut := false
		synctest.Test(t, func(t *testing.T) {
			o := newOriginal(t)
			time.Sleep(time.Millisecond)
			daemontest.MustSend(t, o.Windows, c)
			o.CutPowerAfter(at)
			_, err := daemontest.NewWire(o.Windows).Join(r)
			isCut = err != nil
			o.PowerCut()
			o.PowerOn()
			time.Sleep(10 * time.Second) // the original's daemon runs meanwhile
			daemontest.MustJoin(t, o.Windows, r)
			o.expectTakenOver(t, r)
			o.PowerOff()
		})
		if t.Failed() {
			t.Fatalf("cut at %d", at)
		}
		if !isCut {
			t.Logf("this join makes %d changes", at)
			return
		}
	}
}

// TestOriginalDaemonIsStoppedFirst fails the first change of the join after the stop.
func TestOriginalDaemonIsStoppedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, c := newOriginal(t), daemontest.NewPayload("1")
		daemontest.MustSend(t, o.Windows, c)
		o.FailNext("mkdir " + desired.Versions)
		if _, err := daemontest.NewWire(o.Windows).Join(takeOverRequest(c)); err == nil {
			t.Fatal("the join succeeded")
		}
		if s := o.Service(api.WICDService); s.State != hostapi.Stopped {
			t.Errorf("the original's daemon is %s", s.State)
		}
		if s := o.Service("kubelet"); s.State != hostapi.Running || o.kubelets.Load() != 1 {
			t.Errorf("the kubelet is %s, and started %d times", s.State, o.kubelets.Load())
		}
	})
}

// After a takeover, files with these names may belong to others.
func TestOriginalFileNamesAreKeptOnOtherHosts(t *testing.T) {
	w, r := daemontest.NewHost(t, sim.WindowsOptions{})
	names := []string{`C:\Temp\hns.psm1`, `C:\k\cloud.conf`}
	for _, name := range names {
		daemontest.MustWrite(t, w.Disk(), name, "somebody's")
	}
	daemontest.MustJoin(t, w, r)
	more := r
	withCSIProxy(&more)
	daemontest.MustJoin(t, w, more)
	daemontest.MustJoin(t, w, r)
	for _, name := range names {
		if !w.Disk().Exists(name) {
			t.Errorf("%s was removed", name)
		}
	}
}
