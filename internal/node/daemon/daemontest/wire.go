package daemontest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// Program is the content of the tests' WICD executable.
const Program = "the program that runs"

// Wire calls WICD on a simulated computer, as the operator does over SSH, and counts and cuts off the input.
type Wire struct {
	// Path is the path of the program.
	Path string
	// CutAfter ends the connection after that many bytes to the host; negative means never.
	CutAfter int64
	// Sent counts the bytes that reached the host.
	Sent int64

	windows *sim.Windows
}

func NewWire(w *sim.Windows) *Wire { return &Wire{windows: w, CutAfter: -1} }

// errCut is the error of reading from a connection that was cut.
var errCut = errors.New("the connection was cut")

// Run implements wicdapi.Runner.
func (w *Wire) Run(ctx context.Context, command string, stdin io.Reader, stdout io.Writer) error {
	h := w.windows.Host()
	code := daemon.Main(ctx, daemon.Call{
		Path: w.Path, Args: strings.Fields(command), Stdin: &cutReader{wire: w, r: stdin, left: w.CutAfter}, Stdout: stdout, Stderr: io.Discard,
		Host:    func() (hostapi.Host, error) { return h, nil },
		Program: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(Program)), nil },
	})
	if code != 0 {
		return fmt.Errorf("exit status %d", code)
	}
	return nil
}

type cutReader struct {
	wire *Wire
	r    io.Reader
	left int64
}

// Read implements io.Reader.
func (c *cutReader) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, errCut
	}
	if c.left > 0 {
		p = p[:min(int64(len(p)), c.left)]
	}
	n, err := c.r.Read(p)
	c.wire.Sent += int64(n)
	if c.left > 0 {
		c.left -= int64(n)
	}
	return n, err
}

// Send sends a payload to the host.
func (w *Wire) Send(c *Payload) (wicdapi.ReceiveResult, error) {
	return wicdapi.Send(context.Background(), w, wicdapi.CommandReceive, c.Contents, c.open, nil)
}

// Join joins the host, and retries while Windows completes its setup or servicing, as the operator does.
func (w *Wire) Join(r wicdapi.JoinRequest) (result wicdapi.JoinResult, err error) {
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, time.Minute) {
		result, err = w.TryJoin(r)
		failed := wicdapi.Failed(err)
		if failed == nil || failed.Code != wicdapi.CodeWaitingForSetup && failed.Code != wicdapi.CodeServicing {
			return result, err
		}
		time.Sleep(pause)
	}
}

// TryJoin tries once to join the host.
func (w *Wire) TryJoin(r wicdapi.JoinRequest) (result wicdapi.JoinResult, err error) {
	err = wicdapi.Call(context.Background(), w, wicdapi.CommandJoin, r, &result, nil)
	return result, err
}

// Leave removes the host from a cluster.
func (w *Wire) Leave(cluster string) (result wicdapi.LeaveResult, err error) {
	err = wicdapi.Call(context.Background(), w, wicdapi.CommandLeave, wicdapi.LeaveRequest{Cluster: cluster}, &result, nil)
	return result, err
}

func MustSend(t *testing.T, w *sim.Windows, c *Payload) wicdapi.ReceiveResult {
	t.Helper()
	result, err := NewWire(w).Send(c)
	if err != nil {
		t.Fatalf("sending: %v", err)
	}
	return result
}

func MustJoin(t *testing.T, w *sim.Windows, r wicdapi.JoinRequest) wicdapi.JoinResult {
	t.Helper()
	result, err := NewWire(w).Join(r)
	if err != nil {
		t.Fatalf("joining: %v", err)
	}
	return result
}

func MustLeave(t *testing.T, w *sim.Windows, cluster string) wicdapi.LeaveResult {
	t.Helper()
	result, err := NewWire(w).Leave(cluster)
	if err != nil {
		t.Fatalf("leaving: %v", err)
	}
	return result
}

// Facts returns the answer to the command facts.
func Facts(t *testing.T, w *sim.Windows) (facts wicdapi.Facts) {
	t.Helper()
	mustCall(t, w, wicdapi.CommandFacts, &facts)
	return facts
}

// Status returns the answer to the command status.
func Status(t *testing.T, w *sim.Windows) (status wicdapi.Status) {
	t.Helper()
	mustCall(t, w, wicdapi.CommandStatus, &status)
	return status
}

func mustCall(t *testing.T, w *sim.Windows, command string, result any) {
	t.Helper()
	if err := wicdapi.Call(t.Context(), NewWire(w), command, nil, result, nil); err != nil {
		t.Fatalf("%s: %v", command, err)
	}
}
