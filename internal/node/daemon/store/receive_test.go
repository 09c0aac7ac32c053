package store_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/payload/compress"
)

// expectStore checks that the store holds exactly the payload.
func expectStore(t *testing.T, w *sim.Windows, c *daemontest.Payload) {
	t.Helper()
	names, err := w.Disk().List(desired.Store)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int64{}
	for _, name := range names {
		info, err := w.Disk().Stat(desired.Store + `\` + name)
		if err != nil {
			t.Fatal(err)
		}
		found[name] = info.Size()
	}
	want := map[string]int64{}
	for _, x := range c.Contents {
		want[x.SHA256] = x.Size
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("the store (-want +got):\n%s", diff)
	}
}

func TestOnlyMissingContentIsSent(t *testing.T) {
	w := daemontest.NewWindows(t, sim.WindowsOptions{})
	one, two := daemontest.NewPayload("1"), daemontest.NewPayload("2b")
	first := daemontest.MustSend(t, w, one)
	if want := (wicdapi.ReceiveResult{Files: len(one.Contents), Bytes: one.Size()}); !cmp.Equal(want, first) {
		t.Errorf("first result %+v, want %+v", first, want)
	}
	expectStore(t, w, one)
	if again := daemontest.MustSend(t, w, one); !cmp.Equal(wicdapi.ReceiveResult{}, again) {
		t.Errorf("the second time, %+v was sent", again)
	}
	if next := daemontest.MustSend(t, w, two); next.Files != len(two.Contents)-1 {
		t.Errorf("%d files of the next version were sent, want all except the unchanged one", next.Files)
	}
}

func TestRunningProgramIsNotSent(t *testing.T) {
	w, c := daemontest.NewWindows(t, sim.WindowsOptions{}), daemontest.NewPayload("1")
	others := daemontest.MustSend(t, w, c)
	c.Add(`windows-instance-config-daemon.exe`, []byte(daemontest.Program))
	w = daemontest.NewWindows(t, sim.WindowsOptions{})
	if diff := cmp.Diff(others, daemontest.MustSend(t, w, c)); diff != "" {
		t.Errorf("result (-without the program +with it):\n%s", diff)
	}
	kept := c.Contents[len(c.Contents)-1].SHA256
	if b, err := w.Disk().Read(desired.Store + `\` + kept); err != nil || string(b) != daemontest.Program {
		t.Errorf("the store has %q, %v", b, err)
	}
}

func TestAlteredContentIsReplaced(t *testing.T) {
	for name, alter := range map[string]func(content []byte) []byte{
		"one bit": func(b []byte) []byte { b[100] ^= 1; return b },
		"shorter": func(b []byte) []byte { return b[:50] },
		"empty":   func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			w, c := daemontest.NewWindows(t, sim.WindowsOptions{}), daemontest.NewPayload("1")
			daemontest.MustSend(t, w, c)
			victim := c.Contents[1].SHA256
			local := w.Disk().Local(desired.Store + `\` + victim)
			b, err := os.ReadFile(local)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(local, alter(b), 0o600); err != nil {
				t.Fatal(err)
			}
			w.AddProgram(desired.Store + `\` + victim) // it runs, so Windows does not allow removing it
			result := daemontest.MustSend(t, w, c)
			want := wicdapi.ReceiveResult{Files: 1, Bytes: c.Contents[1].CompressedSize, Altered: []string{victim}}
			if diff := cmp.Diff(want, result); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if again := daemontest.MustSend(t, w, c); again.Files != 0 || again.Altered != nil {
				t.Errorf("afterwards %+v was sent", again)
			}
		})
	}
}

func TestAlteredContentIsRefusedAndResent(t *testing.T) {
	for name, alter := range map[string]func(b []byte){
		"middle": func(b []byte) { b[len(b)/2] ^= 0x10 },
		"magic":  func(b []byte) { b[0] ^= 0xff },
		"end":    func(b []byte) { b[len(b)-1] ^= 1 },
	} {
		t.Run(name, func(t *testing.T) {
			w, c := daemontest.NewWindows(t, sim.WindowsOptions{}), daemontest.NewPayload("1")
			victim := c.Contents[0].SHA256
			intact := bytes.Clone(c.Compressed[victim])
			alter(c.Compressed[victim])
			_, err := daemontest.NewWire(w).Send(c)
			if e := daemontest.ExpectCode(t, err, wicdapi.CodeContentAltered); !strings.Contains(e.Message, victim[:12]) {
				t.Errorf("%q does not name content %.12s", e.Message, victim)
			}
			c.Compressed[victim] = intact
			if result := daemontest.MustSend(t, w, c); result.Files != 1 || result.Bytes != int64(len(intact)) {
				t.Errorf("afterwards %+v was sent, want only the altered content", result)
			}
			expectStore(t, w, c)
		})
	}
}

func TestDecompressionBombDoesNotFillDisk(t *testing.T) {
	w := daemontest.NewWindows(t, sim.WindowsOptions{})
	c := &daemontest.Payload{Compressed: map[string][]byte{}}
	c.Add("bomb", make([]byte, 64<<20))
	c.Contents[0].Size = 1000
	biggest := int64(0)
	stop := watchBiggest(w, &biggest)
	_, err := daemontest.NewWire(w).Send(c)
	stop()
	daemontest.ExpectCode(t, err, wicdapi.CodeContentAltered)
	if biggest > 1<<20 {
		t.Errorf("a file of %d bytes was seen", biggest)
	}
	expectStore(t, w, &daemontest.Payload{})
}

// watchBiggest records the size of the largest file in the store during a test.
func watchBiggest(w *sim.Windows, biggest *int64) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			entries, _ := os.ReadDir(w.Disk().Local(desired.Store))
			for _, e := range entries {
				if info, err := e.Info(); err == nil {
					*biggest = max(*biggest, info.Size())
				}
			}
		}
	}()
	return func() { cancel(); <-done }
}

// TestCutTransferResumes interrupts at and around every boundary between contents, and at random.
func TestCutTransferResumes(t *testing.T) {
	c := daemontest.NewPayload("1")
	var request int64 = 1 // the newline
	for _, x := range c.Contents {
		item, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		request += int64(len(item)) + int64(len(","))
	}
	request += int64(len(`{"content":[]}`)) - 1
	cuts := []int64{0, 1, request - 1, request}
	at := request
	for _, x := range c.Contents {
		cuts = append(cuts, at+1, at+x.CompressedSize-1, at+x.CompressedSize, at+x.CompressedSize/2)
		at += x.CompressedSize
	}
	chance := rand.New(rand.NewPCG(3, 4))
	for range 40 {
		cuts = append(cuts, chance.Int64N(at))
	}
	for _, cut := range cuts {
		w := daemontest.NewWindows(t, sim.WindowsOptions{})
		wire := daemontest.NewWire(w)
		wire.CutAfter = cut
		if _, err := wire.Send(c); err == nil && cut < at {
			t.Errorf("cut at %d: no error", cut)
		}
		wire.CutAfter = -1
		if _, err := wire.Send(c); err != nil {
			t.Errorf("cut at %d: the second time: %v", cut, err)
		}
		expectStore(t, w, c)
		if limit := c.Size() + 2*request; wire.Sent > limit {
			t.Errorf("cut at %d: %d bytes were sent in all, want at most %d", cut, wire.Sent, limit)
		}
	}
}

// TestStoreSurvivesPowerFailures cuts the power at each change that a transfer makes.
func TestStoreSurvivesPowerFailures(t *testing.T) {
	c := daemontest.NewPayload("1")
	for at := 0; ; at++ {
		w := daemontest.NewWindows(t, sim.WindowsOptions{})
		w.CutPowerAfter(at)
		_, err := daemontest.NewWire(w).Send(c)
		w.PowerCut()
		w.PowerOn()
		daemontest.MustSend(t, w, c)
		expectStore(t, w, c)
		if err == nil {
			t.Logf("a receive makes %d changes", at)
			return
		}
	}
}

func TestInvalidPartIsDiscarded(t *testing.T) {
	for name, part := range map[string]func(compressed []byte) []byte{
		"too long":            func(b []byte) []byte { return append(bytes.Clone(b), 1, 2, 3) },
		"complete and wrong":  func(b []byte) []byte { return make([]byte, len(b)) },
		"beginning and wrong": func([]byte) []byte { return []byte("other bytes") },
	} {
		t.Run(name, func(t *testing.T) {
			w, c := daemontest.NewWindows(t, sim.WindowsOptions{}), daemontest.NewPayload("1")
			victim := c.Contents[0].SHA256
			daemontest.MustWrite(t, w.Disk(), desired.Store+`\`+victim+".part", string(part(c.Compressed[victim])))
			if _, err := daemontest.NewWire(w).Send(c); err != nil {
				daemontest.ExpectCode(t, err, wicdapi.CodeContentAltered)
				daemontest.MustSend(t, w, c)
			}
			expectStore(t, w, c)
		})
	}
}

func TestFullDriveIsRejectedBeforeTransfer(t *testing.T) {
	w := daemontest.NewWindows(t, sim.WindowsOptions{FreeBytes: 512<<20 + 1000})
	wire := daemontest.NewWire(w)
	_, err := wire.Send(daemontest.NewPayload("1"))
	e := daemontest.ExpectCode(t, err, wicdapi.CodeFailed)
	daemontest.ExpectContains(t, e.Message, "512 MB free", "needs 0 MB")
	if wire.Sent > 2000 {
		t.Errorf("%d bytes were sent", wire.Sent)
	}
}

func TestInvalidReceiveRequestsAreRejected(t *testing.T) {
	for name, content := range map[string]wicdapi.Content{
		"path":                  {SHA256: `..\..\Windows\System32\evil.dll`, Size: 1, CompressedSize: 1},
		"upper":                 {SHA256: strings.Repeat("A", 64), Size: 1, CompressedSize: 1},
		"negative":              {SHA256: strings.Repeat("a", 64), Size: -1, CompressedSize: 1},
		"too large":             {SHA256: strings.Repeat("a", 64), Size: compress.MaxSize + 1, CompressedSize: 1},
		"too large on the wire": {SHA256: strings.Repeat("a", 64), Size: 1, CompressedSize: compress.MaxSize + 1},
		"unknown dictionary":    {SHA256: strings.Repeat("a", 64), Size: 1, CompressedSize: 1, Dictionary: strings.Repeat("b", 64)},
		"its own dictionary":    {SHA256: strings.Repeat("a", 64), Size: 1, CompressedSize: 1, Dictionary: strings.Repeat("a", 64)},
		"path as dictionary":    {SHA256: strings.Repeat("a", 64), Size: 1, CompressedSize: 1, Dictionary: `..\..\Windows\win.ini`},
	} {
		t.Run(name, func(t *testing.T) {
			w := daemontest.NewWindows(t, sim.WindowsOptions{})
			_, err := daemontest.NewWire(w).Send(&daemontest.Payload{Contents: []wicdapi.Content{content}})
			daemontest.ExpectCode(t, err, wicdapi.CodeRequestInvalid)
			if names, _ := w.Disk().List(`C:\`); len(names) > 0 {
				t.Errorf("something was created: %q", names)
			}
		})
	}
}

func TestConcurrentReceiveIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := daemontest.NewWindows(t, sim.WindowsOptions{}), daemontest.NewPayload("1")
		daemontest.MustSend(t, w, &daemontest.Payload{})
		release, err := w.Host().System.Lock(desired.State + `\command.lock`)
		if err != nil {
			t.Fatal(err)
		}
		_, err = daemontest.NewWire(w).Send(c)
		daemontest.ExpectCode(t, err, wicdapi.CodeBusy)
		time.AfterFunc(time.Second, release) // the earlier command ends while this one waits
		daemontest.MustSend(t, w, c)
	})
}

func TestPlantedStoreFolderIsClaimed(t *testing.T) {
	w, c := daemontest.NewWindows(t, sim.WindowsOptions{}), daemontest.NewPayload("1")
	k, elsewhere := w.Disk().Local(`C:\k`), t.TempDir()
	planted := filepath.Join(k, "planted.exe")
	if err := os.MkdirAll(k, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(planted, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(k, "store")); err != nil {
		t.Fatal(err)
	}
	daemontest.MustSend(t, w, c)
	for name, want := range map[string]os.FileMode{k: 0o700, planted: 0o600, filepath.Join(k, "store"): 0o700} {
		if info, err := os.Lstat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v, %v; want %v", name, info.Mode(), err, want)
		}
	}
	if entries, _ := os.ReadDir(elsewhere); len(entries) > 0 {
		t.Errorf("%d files were written to the target of the link", len(entries))
	}
	expectStore(t, w, c)
}

func TestReplacedFilesAreDeletedLater(t *testing.T) {
	w, c := daemontest.NewWindows(t, sim.WindowsOptions{}), daemontest.NewPayload("1")
	daemontest.MustWrite(t, w.Disk(), `C:\k\kubelet.exe.old0`, "ran once")
	daemontest.MustWrite(t, w.Disk(), `C:\k\cni\config.old`, "somebody's own")
	daemontest.MustSend(t, w, c)
	if w.Disk().Exists(`C:\k\kubelet.exe.old0`) || !w.Disk().Exists(`C:\k\cni\config.old`) {
		t.Error("a file that was moved aside remains, or another file is missing")
	}
}
