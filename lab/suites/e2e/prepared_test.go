//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/operator/remote"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
)

// maxRequests limits what a join may send to a prepared host: requests, but no content.
const maxRequests = 512 << 10

// TestPreparedMachineJoinsWithoutTransfer prepares a host without feature Containers by kubectl windows prepare, and joins it.
func TestPreparedMachineJoinsWithoutTransfer(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunRegistries())
	p := newPluginTest(newHarness(t, testenv.Options{WineHosts: 1}))
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
	p.run(0, prepare, host.Address()+" is prepared")
	prepared, err := host.Stats()
	must(t, err)
	t.Logf("prepared in %s, %d bytes sent", time.Since(began).Round(time.Second), prepared.Sub(before).BytesIn)
	boot, err := host.BootID(t.Context())
	must(t, err)
	if boot != fresh+1 {
		t.Errorf("the host restarted %d times, want once", boot-fresh)
	}
	for _, service := range []string{"kubelet", "containerd", "windows-instance-config-daemon", "hybrid-overlay-node"} {
		if _, found, err := host.Service(t.Context(), service); err != nil || found {
			t.Errorf("the prepared host has service %s (%v)", service, err)
		}
	}
	p.run(0, prepare, host.Address()+" is prepared")
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
}
