package storytest

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/windows-machine-config/wmco/internal/operator/prepare"
	"github.com/windows-machine-config/wmco/internal/operator/remote"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// TestHostOfPreparedImageJoinsWithoutTransfer prepares hosts with quirks of Windows, and joins them: they get no content, do not restart again, and pull no
// sandbox image.
func TestHostOfPreparedImageJoinsWithoutTransfer(t *testing.T) {
	content := quirksPayload(t)
	for seed := range 12 {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var quirks sim.Quirks
				if seed > 0 {
					quirks = sim.RandomPassingQuirks(uint64(seed))
				}
				q := newQuirky(t, content, windowsbuild.Server2022, quirks)
				defer q.close()
				q.prepare()
				q.expectNoIdentity()
				restarts, _ := q.host.Windows().RestartsRequested()
				before := q.host.SSH().Counters()
				if before.BytesIn < 6*64<<10 {
					t.Errorf("the preparation sent %d bytes, less than the payload has", before.BytesIn)
				}
				o := q.join()
				sent := q.host.SSH().Counters().Sub(before)
				if !o.ready {
					t.Errorf("the host is no Ready node: %+v", o)
				}
				if after, disturbed := q.host.Windows().RestartsRequested(); after != restarts || restarts > 2 || disturbed > 0 {
					t.Errorf("the join restarted the host %d times after %d restarts, %d of them during servicing", after-restarts, restarts, disturbed)
				}
				if pulls := q.host.Windows().Pulls(); len(pulls) != 1 {
					t.Errorf("the host pulled %q, want the sandbox image once", pulls)
				}
				if sent.BytesIn > 64<<10 { // requests; some hosts get them as files
					t.Errorf("the join sent %d bytes", sent.BytesIn)
				}
			})
		})
	}
}

// prepare prepares the host twice; the second time changes nothing.
func (q *quirky) prepare() {
	q.Helper()
	containerd, err := desired.ForImage("prepared", q.content.Manifest, desired.DefaultSandboxImage, "")
	if err != nil {
		q.Fatal(err)
	}
	p := prepare.Preparation{
		Dial: q.dial, Payload: q.content, Content: q.content.Manifest, Observer: unobserved{},
		Request: wicdapi.PrepareRequest{Features: []string{desired.ContainersFeature}, Containerd: &containerd},
	}
	if err := p.Run(q.Context()); err != nil {
		q.Fatal(err)
	}
	restarts, _ := q.host.Windows().RestartsRequested()
	before := q.host.SSH().Counters()
	if err := p.Run(q.Context()); err != nil {
		q.Fatal(err)
	}
	if after, _ := q.host.Windows().RestartsRequested(); after != restarts {
		q.Error("the second preparation restarted the host")
	}
	if sent := q.host.SSH().Counters().Sub(before); sent.BytesIn > 64<<10 {
		q.Errorf("the second preparation sent %d bytes", sent.BytesIn)
	}
}

func (q *quirky) dial(ctx context.Context) (*remote.Host, error) {
	return remote.Dial(ctx, remote.Target{Address: "192.0.2.10", User: "Administrator", Key: q.key}, remote.Options{
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return q.network.DialContext(ctx) },
	})
}

// expectNoIdentity checks what a prepared host has of the operator's: content by its hash, and nothing that copies of it would share.
func (q *quirky) expectNoIdentity() {
	q.Helper()
	disk := q.host.Windows().Disk()
	for _, folder := range []string{desired.Root, desired.Logs, desired.KubeletData, desired.CNIData, desired.ContainerdData} {
		top := disk.Local(folder)
		err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			if path == disk.Local(desired.PreparedImage) {
				return nil
			}
			if name := filepath.Base(path); filepath.Dir(path) != disk.Local(desired.Store) || len(name) != 64 {
				q.Errorf("a prepared host has %s", strings.TrimPrefix(path, top))
			}
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			q.Error(err)
		}
	}
	list, err := q.host.Windows().Host().Services.List(q.Context(), []string{desired.KubeletService, desired.OverlayService, "windows-instance-config-daemon", "containerd"})
	if err != nil || len(list) > 0 {
		q.Errorf("a prepared host has services %v (%v)", list, err)
	}
}
