package agent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/desired"
)

// program is a host on which every command is this function.
type program func(s *agent.Session, stdout io.Writer) error

func (p program) Run(_ context.Context, _ string, stdin io.Reader, stdout io.Writer) error {
	return p(agent.NewSession(stdin, stdout), stdout)
}

func TestCallHandsOverRequestStepsAndResult(t *testing.T) {
	host := program(func(s *agent.Session, _ io.Writer) error {
		var r agent.JoinRequest
		if err := s.Request(&r); err != nil {
			return err
		}
		_ = s.Step(agent.Step{Name: "one"})
		_ = s.Step(agent.Step{Name: "two", Bytes: 1, Total: 2})
		s.End(agent.JoinResult{BootID: r.Node}, nil)
		return nil
	})
	var steps []agent.Step
	var result agent.JoinResult
	err := agent.Call(t.Context(), host, "x join", agent.JoinRequest{Local: desired.Local{Node: "win-1"}}, &result, func(s agent.Step) { steps = append(steps, s) })
	if err != nil {
		t.Fatal(err)
	}
	if result.BootID != "win-1" {
		t.Errorf("result has %q, the request said win-1", result.BootID)
	}
	want := []agent.Step{{Name: "one"}, {Name: "two", Bytes: 1, Total: 2}}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

func TestFailureThatWICDReportsKeepsItsCode(t *testing.T) {
	host := program(func(s *agent.Session, _ io.Writer) error {
		s.End(nil, fmt.Errorf("joining: %w", &agent.Error{Code: agent.CodeServiceConflict, Message: "service kubelet is not ours"}))
		return errors.New("exit status 1")
	})
	err := agent.Call(t.Context(), host, "x join", nil, nil, nil)
	if e := agent.Failed(err); e == nil || e.Code != agent.CodeServiceConflict {
		t.Errorf("got %v, want code %s", err, agent.CodeServiceConflict)
	}
}

func TestForeignOutputIsNoAnswer(t *testing.T) {
	tests := map[string]string{
		"silence":         "",
		"cmd":             "'.\\\\wicd.exe' is not recognized as an internal or external command,\r\noperable program or batch file.\r\n",
		"another program": "{\"hello\":1}\n[1,2]\n",
		"binary":          "\x00\x01\xff\n",
		"endless line":    strings.Repeat("a", 3<<20),
	}
	for name, output := range tests {
		t.Run(name, func(t *testing.T) {
			failed := errors.New("exit status 1")
			host := program(func(_ *agent.Session, stdout io.Writer) error {
				_, _ = io.WriteString(stdout, output)
				return failed
			})
			err := agent.Call(t.Context(), host, "wicd facts", nil, nil, nil)
			var noAnswer *agent.NoAnswerError
			if !errors.As(err, &noAnswer) || !errors.Is(err, failed) {
				t.Fatalf("got %v, want a NoAnswerError around %v", err, failed)
			}
			if len(noAnswer.Output) > 700 {
				t.Errorf("the error repeats %d characters of the output", len(noAnswer.Output))
			}
		})
	}
}

func TestCancelledCallSaysWhy(t *testing.T) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errors.New("not done after a millisecond"))
	defer cancel()
	host := hang{}
	err := agent.Call(ctx, host, "wicd facts", nil, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "not done after a millisecond") {
		t.Errorf("got %v", err)
	}
}

type hang struct{}

func (hang) Run(ctx context.Context, _ string, _ io.Reader, _ io.Writer) error {
	<-ctx.Done()
	return ctx.Err()
}

// blobs are contents by hash.
type blobs map[string]string

func (b blobs) open(sha string, offset int64) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(b[sha][offset:])), nil
}

func TestSendSendsOnlyWhatIsMissing(t *testing.T) {
	content := blobs{"a": "aaaaaaaaaa", "b": "bbbbb", "c": "ccc"}
	var got bytes.Buffer
	host := program(func(s *agent.Session, _ io.Writer) error {
		var r agent.ReceiveRequest
		if err := s.Request(&r); err != nil {
			return err
		}
		if len(r.Content) != 3 {
			return fmt.Errorf("the request lists %d contents", len(r.Content))
		}
		_ = s.Missing([]agent.Missing{{SHA256: "a", Offset: 7}, {SHA256: "c"}})
		if _, err := io.CopyN(&got, s.Body(), 6); err != nil {
			return err
		}
		s.End(agent.ReceiveResult{Files: 2, Bytes: 6}, nil)
		return nil
	})
	list := []agent.Content{{SHA256: "a", CompressedSize: 10}, {SHA256: "b", CompressedSize: 5}, {SHA256: "c", CompressedSize: 3}}
	result, err := agent.Send(t.Context(), host, "wicd receive", list, content.open, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != "aaaccc" || result.Bytes != 6 {
		t.Errorf("the host received %q, result %+v", got.String(), result)
	}
}

func TestSendEndsWhenTheHostEndsEarly(t *testing.T) {
	host := program(func(s *agent.Session, _ io.Writer) error {
		var r agent.ReceiveRequest
		_ = s.Request(&r)
		_ = s.Missing([]agent.Missing{{SHA256: "a"}})
		return errors.New("connection lost")
	})
	_, err := agent.Send(t.Context(), host, "wicd receive", []agent.Content{{SHA256: "a"}}, blobs{"a": strings.Repeat("a", 1<<20)}.open, nil)
	if err == nil || !strings.Contains(err.Error(), "connection lost") {
		t.Errorf("got %v, want what happened to the connection", err)
	}
}

func TestSendSaysWhenTheOperatorCannotReadItsOwnContent(t *testing.T) {
	host := program(func(s *agent.Session, _ io.Writer) error {
		var r agent.ReceiveRequest
		_ = s.Request(&r)
		_ = s.Missing([]agent.Missing{{SHA256: "a"}})
		_, _ = io.ReadAll(s.Body())
		s.End(nil, io.ErrUnexpectedEOF) // over SSH the host only sees the end of its input
		return nil
	})
	open := func(string, int64) (io.ReadCloser, error) { return nil, errors.New("disk gone") }
	_, err := agent.Send(t.Context(), host, "wicd receive", []agent.Content{{SHA256: "a"}}, open, nil)
	if err == nil || !strings.Contains(err.Error(), "disk gone") {
		t.Errorf("got %v, want the reason on the operator's side", err)
	}
}

func FuzzOutput(f *testing.F) {
	f.Add([]byte(`{"step":{"name":"x"}}` + "\n" + `{"result":{"bootID":"7"}}` + "\n"))
	f.Add([]byte(`{"missing":null}` + "\n" + `{"missing":[{"sha256":"a","offset":-1}]}`))
	f.Add([]byte(`{"error":{"code":"x"}}` + "\n\n{"))
	f.Fuzz(func(t *testing.T, output []byte) {
		host := program(func(_ *agent.Session, stdout io.Writer) error {
			_, _ = stdout.Write(output)
			return nil
		})
		var result agent.JoinResult
		err := agent.Call(t.Context(), host, "x", nil, &result, func(agent.Step) {})
		if err == nil && !bytes.Contains(output, []byte("result")) {
			t.Errorf("output %q was taken for a result", output)
		}
	})
}
