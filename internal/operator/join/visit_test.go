package join_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/payload"
)

// visitedHost is a host that has joined: it has WICD, and answers while its connection lasts.
type visitedHost struct {
	noFiles
	bootID  string
	cluster string // the cluster that it has joined
	refuses string // error of a restart
	lost    string // a word of the command at which the connection breaks
	late    string // a word of the command after which the connection breaks
	remains []string
	calls   []string
	closed  bool
}

// program is the hash of the WICD on the host.
func program() string { return strings.Repeat("a", 64) }

func (h *visitedHost) Put(context.Context, string, io.Reader, int64) error {
	return errors.New("WICD is there, and was sent again")
}

func (h *visitedHost) Close() error {
	h.closed = true
	return nil
}

func (h *visitedHost) Run(_ context.Context, command string, stdin io.Reader, stdout io.Writer) error {
	if h.lost != "" && strings.Contains(command, h.lost) {
		return errConnectionLost()
	}
	_, verb, _ := strings.Cut(command, " ")
	h.calls = append(h.calls, verb)
	s := wicdapi.NewSession(stdin, stdout)
	switch verb {
	case wicdapi.CommandFacts:
		s.End(wicdapi.Facts{Program: program(), Host: wicdapi.HostFacts{Hostname: "win-1", BootID: h.bootID}}, nil)
	case wicdapi.CommandRestart:
		return h.restart(s)
	case wicdapi.CommandReceive:
		if err := s.Request(&wicdapi.ReceiveRequest{}); err != nil {
			return err
		}
		if err := s.Missing(nil); err != nil {
			return err
		}
		s.End(wicdapi.ReceiveResult{}, nil)
	case wicdapi.CommandLeave:
		var r wicdapi.LeaveRequest
		if err := s.Request(&r); err != nil {
			return err
		}
		if r.Cluster != h.cluster {
			s.End(nil, &wicdapi.Error{Code: wicdapi.CodeOtherCluster, Message: "the host belongs to cluster " + h.cluster})
			return exitCode(1)
		}
		s.End(wicdapi.LeaveResult{Remains: h.remains}, nil)
	default:
		return fmt.Errorf("unknown command %q", command)
	}
	return nil
}

// restart restarts the host as WICD does.
func (h *visitedHost) restart(s *wicdapi.Session) error {
	var r wicdapi.RestartRequest
	if err := s.Request(&r); err != nil {
		return err
	}
	if r.BootID != h.bootID {
		s.End(wicdapi.RestartResult{BootID: h.bootID}, nil)
		return nil
	}
	if h.refuses != "" {
		s.End(nil, errors.New(h.refuses))
		return exitCode(1)
	}
	h.calls = append(h.calls, "restarts")
	if h.late == wicdapi.CommandRestart {
		return errConnectionLost()
	}
	s.End(wicdapi.RestartResult{BootID: h.bootID, Restarting: true}, nil)
	return nil
}

func errConnectionLost() error {
	return &join.Unreachable{Reason: "ConnectionLost", Err: errors.New("the connection broke")}
}

// exitCode is a command's exit status in the form that package remote reports.
type exitCode int

func (e exitCode) Error() string   { return fmt.Sprintf("exit status %d", int(e)) }
func (e exitCode) ExitStatus() int { return int(e) }

// noFiles is a host without SFTP.
type noFiles struct{}

func (noFiles) Files(context.Context, func(wicdapi.Files) error) error { return errors.New("no SFTP") }

func (noFiles) Server() (version string, at netip.Addr) {
	return "SSH-2.0-OpenSSH_for_Windows_9.5", netip.Addr{}
}

// reached is a host that answers at once.
type reached struct{ join.Host }

func (r reached) Connect(context.Context) (join.Host, error) { return r.Host, nil }

// unobserved is an Observer that ignores everything.
type unobserved struct{}

func (unobserved) Progress(join.Progress) {}
func (unobserved) Altered([]string)       {}

// slots are transfer slots; left is how many are free.
type slots struct{ left int }

func (p *slots) take() (io.Closer, error) {
	if p.left == 0 {
		return nil, join.ErrNoSlot
	}
	p.left--
	return p, nil
}

func (p *slots) Close() error {
	p.left++
	return nil
}

// visit returns a Visit to the host.
func visit(h *visitedHost) *join.Visit {
	wicd := payload.File{Path: payload.WICD, Component: "wicd", Group: payload.Base, SHA256: program(), Size: 1}
	content := payload.New([]payload.File{wicd}, payload.File{})
	return &join.Visit{Host: reached{h}, Payload: &payload.Payload{Manifest: content}, Content: content, Observer: unobserved{}, Now: time.Now}
}

// TestRestart expects at most one restart. The original operator lost the exit status of the restart command with the connection, treated that as a
// failure, and restarted the host repeatedly.
func TestRestart(t *testing.T) {
	for _, test := range []struct {
		name  string
		host  visitedHost
		calls []string
		fails bool
	}{
		{"host restarts", visitedHost{bootID: "7"}, []string{"facts", "restart", "restarts"}, false},
		{"host has restarted already", visitedHost{bootID: "8"}, []string{"facts", "restart"}, false},
		{"restart fails", visitedHost{bootID: "7", refuses: "exit status 5"}, []string{"facts", "restart"}, true},
		{"response is lost", visitedHost{bootID: "7", late: wicdapi.CommandRestart}, []string{"facts", "restart", "restarts"}, true},
		{"host does not respond", visitedHost{bootID: "7", lost: wicdapi.CommandFacts}, nil, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := test.host
			err := visit(&h).Restart(t.Context(), "7")
			if (err != nil) != test.fails {
				t.Errorf("Restart() = %v, want an error: %v", err, test.fails)
			}
			if diff := cmp.Diff(test.calls, h.calls); diff != "" {
				t.Errorf("the host did (-want +got):\n%s", diff)
			}
			if !h.closed {
				t.Error("the connection was left open")
			}
		})
	}
}

func TestLostResponseCausesNoSecondRestart(t *testing.T) {
	h := &visitedHost{bootID: "7", late: wicdapi.CommandRestart}
	if err := visit(h).Restart(t.Context(), "7"); err == nil {
		t.Fatal("a lost response counts as success, although the command may not have arrived")
	}
	h.bootID, h.late = "8", "" // the command had arrived
	if err := visit(h).Restart(t.Context(), "7"); err != nil {
		t.Fatal(err)
	}
	if n := len(slices.DeleteFunc(h.calls, func(what string) bool { return what != "restarts" })); n != 1 {
		t.Errorf("the host received %d restart commands, want one", n)
	}
}

func TestHostLeavesOnlyItsCluster(t *testing.T) {
	h := &visitedHost{cluster: "ours", remains: []string{`C:\k\x.exe: in use`}}
	result, err := visit(h).Leave(t.Context(), "ours")
	if err != nil || !slices.Equal(result.Remains, h.remains) {
		t.Errorf("Leave() = %+v, %v; want the remaining objects", result, err)
	}
	_, err = visit(h).Leave(t.Context(), "theirs")
	if failed := wicdapi.Failed(err); failed == nil || failed.Code != wicdapi.CodeOtherCluster {
		t.Errorf("leaving a cluster that the host is not in: %v, want code %s", err, wicdapi.CodeOtherCluster)
	}
}

func TestInterruptedLeaveReturnsError(t *testing.T) {
	h := &visitedHost{cluster: "ours", lost: wicdapi.CommandLeave}
	if _, err := visit(h).Leave(t.Context(), "ours"); err == nil || wicdapi.Failed(err) != nil {
		t.Errorf("Leave() = %v, want an error that is not WICD's", err)
	}
	h.lost = ""
	if _, err := visit(h).Leave(t.Context(), "ours"); err != nil {
		t.Errorf("the second visit ends with %v", err)
	}
}

// TestStage expects only content to be sent, and the slot to be released.
func TestStage(t *testing.T) {
	h, free := &visitedHost{}, &slots{left: 1}
	if err := visit(h).Stage(t.Context(), join.Transfer{TakeSlot: free.take}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"facts", "receive"}, h.calls); diff != "" || free.left != 1 {
		t.Errorf("%d places of one are left, the host did (-want +got):\n%s", free.left, diff)
	}
	if err := visit(h).Stage(t.Context(), join.Transfer{TakeSlot: (&slots{}).take}); !errors.Is(err, join.ErrNoSlot) {
		t.Errorf("without a place: %v", err)
	} else if after, waits := join.Retry(err); !waits || after <= 0 {
		t.Errorf("without a place it counts as a failure")
	}
}
