//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/operator/remote"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
)

// maxRequests limits what a join may send to a prepared host: requests, but no content.
const maxRequests = 512 << 10

// TestPreparedMachineJoinsWithoutTransfer prepares a host without feature Containers by kubectl windows prepare, and joins it. Its containerd pulls the
// sandbox image only while it is prepared.
func TestPreparedMachineJoinsWithoutTransfer(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunRegistries())
	p := newPluginTest(newHarness(t, testenv.Options{WineHosts: 1, Network: testenv.NetworkLab}))
	host := p.Lab.Hosts()[0]
	must(t, host.WriteRegistry(t.Context(), `HKLM\Software\WMCOLab\Features`, "Containers", guestapi.RegistryValue{Type: "REG_DWORD", Number: 0}))
	fresh, err := host.BootID(t.Context())
	must(t, err)
	key := filepath.Join(t.TempDir(), "key")
	must(t, os.WriteFile(key, p.Key, 0o600))
	hostKey, err := host.HostKey()
	must(t, err)
	prepare := []string{
		"prepare", host.Address(), "--payload", p.Payload, "--user", testenv.User, "--key", key, "--host-key", remote.FormatHostKey(hostKey),
	}
	before, err := host.Stats()
	must(t, err)
	began := time.Now()
	p.run(0, append(prepare, "--sandbox-image="), host.Address()+" is prepared")
	prepared, err := host.Stats()
	must(t, err)
	t.Logf("prepared in %s, %d bytes sent", time.Since(began).Round(time.Second), prepared.Sub(before).BytesIn)
	boot, err := host.BootID(t.Context())
	must(t, err)
	if boot != fresh+1 {
		t.Errorf("the host restarted %d times, want once", boot-fresh)
	}
	// The lab has no registry that serves everyone with a trusted certificate, so containerd needs a mirror.
	mirror := "[host.'http://" + p.PodImages().Host + "']\n  capabilities = ['pull', 'resolve']\n"
	must(t, host.WriteFile(desired.Registries+`\mcr.microsoft.com\hosts.toml`, []byte(mirror)))
	began = time.Now()
	p.run(0, prepare, host.Address()+" is prepared")
	t.Logf("the sandbox image was pulled in %s", time.Since(began).Round(time.Second))
	pulls := p.pauseRequests()
	if pulls == 0 {
		t.Error("no sandbox image was requested")
	}
	if id, err := host.ReadFile(desired.ContainerdRoot + `\io.containerd.grpc.v1.introspection\uuid`); err == nil {
		t.Errorf("copies of the host would share the ID %s of containerd", id)
	}
	for _, service := range []string{"kubelet", "containerd", "windows-instance-config-daemon", "hybrid-overlay-node"} {
		if _, found, err := host.Service(t.Context(), service); err != nil || found {
			t.Errorf("the prepared host has service %s (%v)", service, err)
		}
	}
	if _, err := host.ReadFile(desired.Registries + `\mcr.microsoft.com\hosts.toml`); err == nil {
		t.Error("the configuration of containerd is left")
	}
	p.run(0, prepare, host.Address()+" is prepared") // the image is there: it needs no mirror
	again, err := host.Stats()
	must(t, err)
	if sent := again.Sub(prepared).BytesIn; sent > maxRequests {
		t.Errorf("the second preparation sent %d bytes", sent)
	}

	began = time.Now()
	p.joinAll()
	joined, err := host.Stats()
	must(t, err)
	sent := joined.Sub(again).BytesIn
	t.Logf("joined in %.1f s, %d bytes sent", time.Since(began).Seconds(), sent)
	if sent > maxRequests {
		t.Errorf("the join sent %d bytes", sent)
	}
	if after, err := host.BootID(t.Context()); err != nil || after != boot {
		t.Errorf("the join restarted the host %d times (%v)", after-boot, err)
	}
	if pinned, err := host.IsPinned(t.Context(), desired.DefaultSandboxImage); err != nil || !pinned {
		t.Errorf("the sandbox image is pinned: %v (%v)", pinned, err)
	}
	p.webserver("web", 1, nil)
	p.expectServing("web", 1)
	if after := p.pauseRequests(); after != pulls {
		t.Errorf("the sandbox image was requested %d times after the host was prepared", after-pulls)
	}
}

// pauseRequests returns how often the sandbox image was requested from the registry of pods' images.
func (p harness) pauseRequests() (count int) {
	p.t.Helper()
	requests, err := p.PodImages().Requests()
	must(p.t, err)
	for _, r := range requests {
		if strings.Contains(r.Path, "/pause/") {
			count++
		}
	}
	return count
}
