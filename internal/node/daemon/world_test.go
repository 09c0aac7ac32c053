package daemon_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/payload/compress"
)

// program is the content of the tests' WICD executable.
const program = "the program that runs"

// wire calls WICD on a simulated computer, as the operator does over SSH, and counts and cuts off the input.
type wire struct {
	windows *sim.Windows
	// path is the path of the program.
	path string
	// cutAfter ends the connection after that many bytes to the host; negative means never.
	cutAfter int64
	// sent counts the bytes that reached the host.
	sent int64
}

func newWire(w *sim.Windows) *wire { return &wire{windows: w, cutAfter: -1} }

// errCut is the error of reading from a connection that was cut.
var errCut = errors.New("the connection was cut")

// Run implements wicdapi.Runner.
func (w *wire) Run(ctx context.Context, command string, stdin io.Reader, stdout io.Writer) error {
	h := w.windows.Host()
	code := daemon.Main(ctx, daemon.Call{
		Path: w.path, Args: strings.Fields(command), Stdin: &cutReader{wire: w, r: stdin, left: w.cutAfter}, Stdout: stdout, Stderr: io.Discard,
		Host:    func() (hostapi.Host, error) { return h, nil },
		Program: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(program)), nil },
	})
	if code != 0 {
		return fmt.Errorf("exit status %d", code)
	}
	return nil
}

type cutReader struct {
	wire *wire
	r    io.Reader
	left int64
}

func (c *cutReader) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, errCut
	}
	if c.left > 0 {
		p = p[:min(int64(len(p)), c.left)]
	}
	n, err := c.r.Read(p)
	c.wire.sent += int64(n)
	if c.left > 0 {
		c.left -= int64(n)
	}
	return n, err
}

// cargo is a payload: contents with their compressed bytes.
type cargo struct {
	files      []desired.PayloadFile
	contents   []wicdapi.Content
	compressed map[string][]byte
}

// add adds a file with a path and content to the cargo.
func (c *cargo) add(path string, content []byte) {
	c.addWith(path, content, wicdapi.Content{}, nil)
}

// addWith adds a file that is compressed with another content as its dictionary.
func (c *cargo) addWith(path string, content []byte, dictionary wicdapi.Content, of []byte) {
	sum := sha256.Sum256(content)
	hash := hex.EncodeToString(sum[:])
	var frame bytes.Buffer
	if err := compress.Compress(&frame, bytes.Clone(content), compress.NewDictionary(bytes.Clone(of)), true); err != nil {
		panic(err)
	}
	c.files = append(c.files, desired.PayloadFile{Path: path, SHA256: hash, Size: int64(len(content))})
	c.contents = append(c.contents, wicdapi.Content{
		SHA256: hash, Size: int64(len(content)), CompressedSize: int64(frame.Len()), Dictionary: dictionary.SHA256,
	})
	c.compressed[hash] = frame.Bytes()
}

// newCargo returns a payload with the programs of a node. All contents but one differ between versions.
func newCargo(version string) *cargo {
	c := &cargo{compressed: map[string][]byte{}}
	chance := rand.New(rand.NewPCG(1, uint64(len(version))))
	var runner []byte
	for i, path := range []string{`containerd\containerd.exe`, `kube-log-runner.exe`, `kubelet.exe`, `windows-instance-config-daemon.exe`} {
		content := make([]byte, 20_000+7*i)
		for j := range content {
			content[j] = byte(chance.IntN(64))
		}
		content = append(content, path+version...)
		if i == 2 {
			c.addWith(path, content, c.contents[1], runner)
			continue
		}
		c.add(path, content)
		runner = content
	}
	c.add(`cni\host-local.exe`, []byte("the same in all versions"))
	return c
}

func (c *cargo) digest() string {
	var list bytes.Buffer
	for _, f := range c.files {
		fmt.Fprintf(&list, "%s  %s\n", f.SHA256, f.Path)
	}
	sum := sha256.Sum256(list.Bytes())
	return hex.EncodeToString(sum[:])
}

func (c *cargo) size() (n int64) {
	for _, x := range c.contents {
		n += x.CompressedSize
	}
	return n
}

func (c *cargo) open(sha256 string, offset int64) (io.ReadCloser, error) {
	b, found := c.compressed[sha256]
	if !found || offset > int64(len(b)) {
		return nil, fmt.Errorf("content %.12s has no byte %d", sha256, offset)
	}
	return io.NopCloser(bytes.NewReader(b[offset:])), nil
}

func (w *wire) send(c *cargo) (wicdapi.ReceiveResult, error) {
	return wicdapi.Send(context.Background(), w, wicdapi.CommandReceive, c.contents, c.open, nil)
}

// join joins the host, and retries while Windows completes its setup or servicing, as the operator does.
func (w *wire) join(r wicdapi.JoinRequest) (result wicdapi.JoinResult, err error) {
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, time.Minute) {
		result, err = w.attempt(r)
		failed := wicdapi.Failed(err)
		if failed == nil || failed.Code != wicdapi.CodeWaitingForSetup && failed.Code != wicdapi.CodeServicing {
			return result, err
		}
		time.Sleep(pause)
	}
}

// attempt tries once to join the host.
func (w *wire) attempt(r wicdapi.JoinRequest) (result wicdapi.JoinResult, err error) {
	err = wicdapi.Call(context.Background(), w, wicdapi.CommandJoin, r, &result, nil)
	return result, err
}

func (w *wire) leave(cluster string) (wicdapi.LeaveResult, error) {
	var result wicdapi.LeaveResult
	err := wicdapi.Call(context.Background(), w, wicdapi.CommandLeave, wicdapi.LeaveRequest{Cluster: cluster}, &result, nil)
	return result, err
}

func mustLeave(t *testing.T, w *sim.Windows, cluster string) wicdapi.LeaveResult {
	t.Helper()
	result, err := newWire(w).leave(cluster)
	if err != nil {
		t.Fatalf("leaving: %v", err)
	}
	return result
}

func mustSend(t *testing.T, w *sim.Windows, c *cargo) wicdapi.ReceiveResult {
	t.Helper()
	result, err := newWire(w).send(c)
	if err != nil {
		t.Fatalf("sending: %v", err)
	}
	return result
}

func mustJoin(t *testing.T, w *sim.Windows, r wicdapi.JoinRequest) wicdapi.JoinResult {
	t.Helper()
	result, err := newWire(w).join(r)
	if err != nil {
		t.Fatalf("joining: %v", err)
	}
	return result
}

// newWindows returns a computer with the given quirks, or those drawn from the test's name.
func newWindows(t *testing.T, o sim.WindowsOptions) *sim.Windows {
	t.Helper()
	// Many small files are synced to disk, which takes no time in memory.
	root, err := os.MkdirTemp("/dev/shm", "wicd-test-")
	if err != nil {
		root = t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	o.Root, o.Seed = root, cmp.Or(o.Seed, sim.SeedOf(t.Name()))
	w := sim.NewWindows(o)
	t.Cleanup(func() {
		w.PowerOff()
		if t.Failed() {
			t.Log(w.Told())
		}
	})
	return w
}

func expectCode(t *testing.T, err error, want wicdapi.Code) *wicdapi.Error {
	t.Helper()
	failed := wicdapi.Failed(err)
	if failed == nil || failed.Code != want {
		t.Fatalf("the error is %v, want code %s", err, want)
	}
	return failed
}
