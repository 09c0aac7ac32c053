package wicdapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// program is a host on which every command runs this function.
type program func(s *wicdapi.Session, stdout io.Writer) error

func (p program) Run(_ context.Context, _ string, stdin io.Reader, stdout io.Writer) error {
	return p(wicdapi.NewSession(stdin, stdout), stdout)
}

func TestCallPassesRequestStepsAndResult(t *testing.T) {
	host := program(func(s *wicdapi.Session, _ io.Writer) error {
		var r wicdapi.JoinRequest
		if err := s.Request(&r); err != nil {
			return err
		}
		_ = s.Step(wicdapi.Step{Name: "one"})
		_ = s.Step(wicdapi.Step{Name: "two", Bytes: 1, Total: 2})
		s.End(wicdapi.JoinResult{BootID: r.Node}, nil)
		return nil
	})
	var steps []wicdapi.Step
	var result wicdapi.JoinResult
	err := wicdapi.Call(t.Context(), host, "x join", wicdapi.JoinRequest{Local: desired.Local{Node: "win-1"}}, &result, func(s wicdapi.Step) { steps = append(steps, s) })
	if err != nil {
		t.Fatal(err)
	}
	if result.BootID != "win-1" {
		t.Errorf("result has %q, want win-1", result.BootID)
	}
	want := []wicdapi.Step{{Name: "one"}, {Name: "two", Bytes: 1, Total: 2}}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

func TestReportedFailureKeepsCode(t *testing.T) {
	host := program(func(s *wicdapi.Session, _ io.Writer) error {
		s.End(nil, fmt.Errorf("joining: %w", &wicdapi.Error{Code: wicdapi.CodeServiceConflict, Message: "service kubelet is not ours"}))
		return errors.New("exit status 1")
	})
	err := wicdapi.Call(t.Context(), host, "x join", nil, nil, nil)
	if e := wicdapi.Failed(err); e == nil || e.Code != wicdapi.CodeServiceConflict {
		t.Errorf("got %v, want code %s", err, wicdapi.CodeServiceConflict)
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
			host := program(func(_ *wicdapi.Session, stdout io.Writer) error {
				_, _ = io.WriteString(stdout, output)
				return failed
			})
			err := wicdapi.Call(t.Context(), host, "wicd facts", nil, nil, nil)
			var noAnswer *wicdapi.NoAnswerError
			if !errors.As(err, &noAnswer) || !errors.Is(err, failed) {
				t.Fatalf("got %v, want a NoAnswerError around %v", err, failed)
			}
			if len(noAnswer.Output) > 700 {
				t.Errorf("the error repeats %d characters of the output", len(noAnswer.Output))
			}
		})
	}
}

func TestCanceledCallReturnsCause(t *testing.T) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errors.New("not done after a millisecond"))
	defer cancel()
	host := hang{}
	err := wicdapi.Call(ctx, host, "wicd facts", nil, nil, nil)
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

func TestSendSendsOnlyMissingContent(t *testing.T) {
	content := blobs{"a": "aaaaaaaaaa", "b": "bbbbb", "c": "ccc"}
	var got bytes.Buffer
	host := program(func(s *wicdapi.Session, _ io.Writer) error {
		var r wicdapi.ReceiveRequest
		if err := s.Request(&r); err != nil {
			return err
		}
		if len(r.Content) != 3 {
			return fmt.Errorf("the request lists %d contents", len(r.Content))
		}
		_ = s.Missing([]wicdapi.Missing{{SHA256: "a", Offset: 7}, {SHA256: "c"}})
		if _, err := io.CopyN(&got, s.Body(), 6); err != nil {
			return err
		}
		s.End(wicdapi.ReceiveResult{Files: 2, Bytes: 6}, nil)
		return nil
	})
	list := []wicdapi.Content{{SHA256: "a", CompressedSize: 10}, {SHA256: "b", CompressedSize: 5}, {SHA256: "c", CompressedSize: 3}}
	result, err := wicdapi.Send(t.Context(), host, "wicd receive", list, content.open, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != "aaaccc" || result.Bytes != 6 {
		t.Errorf("the host received %q, result %+v", got.String(), result)
	}
}

func TestSendEndsWhenTheHostEndsEarly(t *testing.T) {
	host := program(func(s *wicdapi.Session, _ io.Writer) error {
		var r wicdapi.ReceiveRequest
		_ = s.Request(&r)
		_ = s.Missing([]wicdapi.Missing{{SHA256: "a"}})
		return errors.New("connection lost")
	})
	_, err := wicdapi.Send(t.Context(), host, "wicd receive", []wicdapi.Content{{SHA256: "a"}}, blobs{"a": strings.Repeat("a", 1<<20)}.open, nil)
	if err == nil || !strings.Contains(err.Error(), "connection lost") {
		t.Errorf("got %v, want the error of the connection", err)
	}
}

func TestSendReportsUnreadableContent(t *testing.T) {
	host := program(func(s *wicdapi.Session, _ io.Writer) error {
		var r wicdapi.ReceiveRequest
		_ = s.Request(&r)
		_ = s.Missing([]wicdapi.Missing{{SHA256: "a"}})
		_, _ = io.ReadAll(s.Body())
		s.End(nil, io.ErrUnexpectedEOF) // over SSH, the host sees only the end of its input
		return nil
	})
	open := func(string, int64) (io.ReadCloser, error) { return nil, errors.New("disk gone") }
	_, err := wicdapi.Send(t.Context(), host, "wicd receive", []wicdapi.Content{{SHA256: "a"}}, open, nil)
	if err == nil || !strings.Contains(err.Error(), "disk gone") {
		t.Errorf("got %v, want the operator's error", err)
	}
}

// flood writes the same line until its output is closed, and counts the bytes.
func flood(line string, written *int) program {
	return func(_ *wicdapi.Session, stdout io.Writer) error {
		for {
			n, err := io.WriteString(stdout, line)
			*written += n
			if err != nil {
				return err
			}
		}
	}
}

func TestOnlyTheFirstResultCounts(t *testing.T) {
	n, written := 0, 0
	host := program(func(_ *wicdapi.Session, stdout io.Writer) error {
		for {
			n++
			if _, err := fmt.Fprintf(stdout, `{"result":{"host":{"unread":{"f%d":"unknown"}}}}`+"\n", n); err != nil {
				return err
			}
		}
	})
	var facts wicdapi.Facts
	if err := wicdapi.Call(t.Context(), host, "wicd facts", nil, &facts, nil); err != nil {
		t.Fatal(err)
	}
	if len(facts.Host.Unread) != 1 || n > 2 {
		t.Errorf("%d results were written, and %d facts kept; want no more than the first", n, len(facts.Host.Unread))
	}
	err := wicdapi.Call(t.Context(), flood(`{"error":{"code":"Busy","message":"later"}}`+"\n", &written), "wicd join", nil, nil, nil)
	if e := wicdapi.Failed(err); e == nil || e.Code != wicdapi.CodeBusy || written > 1000 {
		t.Errorf("error %v after %d bytes, want that the host is busy after the first line", err, written)
	}
}

func TestEndlessOutputIsStopped(t *testing.T) {
	for name, line := range map[string]string{
		"steps":     strings.Repeat(`{"step":{"name":"`+strings.Repeat("x", 100)+`"}}`+"\n", 500),
		"noise":     strings.Repeat("hello\n", 10_000),
		"long line": strings.Repeat("x", 64<<10),
	} {
		t.Run(name, func(t *testing.T) {
			var written int
			err := wicdapi.Call(t.Context(), flood(line, &written), "wicd facts", nil, nil, func(wicdapi.Step) {})
			var noAnswer *wicdapi.NoAnswerError
			if !errors.As(err, &noAnswer) || !strings.Contains(err.Error(), "more than 8 MiB") {
				t.Errorf("got %v, want a NoAnswerError with the limit", err)
			}
			if written > 9<<20 {
				t.Errorf("%d bytes were read of it", written)
			}
		})
	}
}

func TestCommandRunningAfterResultIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		host := stays{`{"result":{"bootID":"7"}}` + "\n"}
		var result wicdapi.JoinResult
		if err := wicdapi.Call(t.Context(), host, "wicd join", nil, &result, nil); err != nil || result.BootID != "7" {
			t.Errorf("result %+v, error %v", result, err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %s to abandon a command that had returned its result", took)
		}
	})
}

// stays is a command that writes something and never exits.
type stays struct{ output string }

func (s stays) Run(ctx context.Context, _ string, _ io.Reader, stdout io.Writer) error {
	_, _ = io.WriteString(stdout, s.output)
	<-ctx.Done()
	return ctx.Err()
}

func TestHostTextsAreTruncated(t *testing.T) {
	const most = 4 << 10
	long := strings.Repeat("ä", 16_000) // invalid UTF-8 if it were cut within a character
	answer := func(line string) program {
		return func(_ *wicdapi.Session, stdout io.Writer) error {
			_, err := io.WriteString(stdout, line+"\n")
			return err
		}
	}
	var facts wicdapi.Facts
	err := wicdapi.Call(t.Context(), answer(`{"result":{"host":{"bootID":"`+long+`","ubr":2402,"clock":"2026-11-22T10:00:00Z","features":{"`+long[:9]+`":"Enabled"}}}}`), "wicd facts", nil, &facts, nil)
	if err != nil || facts.Host.UBR != 2402 || facts.Host.Clock.IsZero() {
		t.Fatalf("%+v, error %v", facts.Host, err)
	}
	err = wicdapi.Call(t.Context(), answer(`{"error":{"code":"Failed","message":"`+long+`"}}`), "wicd join", nil, nil, nil)
	e := wicdapi.Failed(err)
	if e == nil {
		t.Fatalf("got %v, want a failure", err)
	}
	var step wicdapi.Step
	_ = wicdapi.Call(t.Context(), answer(`{"step":{"name":"`+long+`"}}`), "wicd join", nil, nil, func(s wicdapi.Step) { step = s })
	for name, text := range map[string]string{"boot ID": facts.Host.BootID, "message": e.Message, "step": step.Name} {
		if len(text) > most || len(text) < most-10 || !utf8.ValidString(text) {
			t.Errorf("%s has %d bytes (valid UTF-8: %v), want a little less than %d", name, len(text), utf8.ValidString(text), most)
		}
	}
}

func TestInvalidContentRequestsAreRefused(t *testing.T) {
	content := blobs{"a": "aaaaaaaaaa", "b": "bbbbb"}
	for name, missing := range map[string][]wicdapi.Missing{
		"twice":            {{SHA256: "a"}, {SHA256: "a"}},
		"not offered":      {{SHA256: "b"}},
		"behind its end":   {{SHA256: "a", Offset: 11}},
		"before its start": {{SHA256: "a", Offset: -1}},
	} {
		t.Run(name, func(t *testing.T) {
			received := 0
			host := program(func(s *wicdapi.Session, _ io.Writer) error {
				var r wicdapi.ReceiveRequest
				_ = s.Request(&r)
				_ = s.Missing(missing)
				n, err := io.Copy(io.Discard, s.Body())
				received = int(n)
				return err
			})
			_, err := wicdapi.Send(t.Context(), host, "wicd receive", []wicdapi.Content{{SHA256: "a", CompressedSize: 10}}, content.open, nil)
			if err == nil || !strings.Contains(err.Error(), "requested content") {
				t.Errorf("got %v, want an error about requested content", err)
			}
			if received > 10 {
				t.Errorf("%d bytes were sent", received)
			}
		})
	}
}

func FuzzOutput(f *testing.F) {
	f.Add([]byte(`{"step":{"name":"x"}}` + "\n" + `{"result":{"bootID":"7"}}` + "\n"))
	f.Add([]byte(`{"missing":null}` + "\n" + `{"missing":[{"sha256":"a","offset":-1}]}`))
	f.Add([]byte(`{"error":{"code":"x"}}` + "\n\n{"))
	f.Fuzz(func(t *testing.T, output []byte) {
		host := program(func(_ *wicdapi.Session, stdout io.Writer) error {
			_, _ = stdout.Write(output)
			return nil
		})
		var result wicdapi.JoinResult
		err := wicdapi.Call(t.Context(), host, "x", nil, &result, func(wicdapi.Step) {})
		if err == nil && !hasKey(output, "result") {
			t.Errorf("output %q was accepted as a result", output)
		}
	})
}

// hasKey reports whether a line of the output has a key, in any case, as encoding/json accepts it.
func hasKey(output []byte, key string) bool {
	for line := range bytes.Lines(output) {
		var object map[string]json.RawMessage
		_ = json.Unmarshal(line, &object) // a line that is no object has no key
		for name := range object {
			if strings.EqualFold(name, key) {
				return true
			}
		}
	}
	return false
}

// FuzzMissing: whatever a host requests, it is sent only what was offered, each content once, and no more
// bytes.
func FuzzMissing(f *testing.F) {
	f.Add([]byte(`{"missing":[{"sha256":"a","offset":3},{"sha256":"b"}]}` + "\n" + `{"result":{"files":2}}`))
	f.Add([]byte(`{"missing":[{"sha256":"a"},{"sha256":"a"}]}` + "\n" + `{"missing":[{"sha256":"b"}]}`))
	f.Add([]byte(`{"missing":[{"sha256":"c","offset":9223372036854775807}]}` + "\n"))
	f.Fuzz(func(t *testing.T, output []byte) {
		content, opened := blobs{"a": "aaaaaaaaaa", "b": "bbbbb"}, map[string]int{}
		open := func(sha string, offset int64) (io.ReadCloser, error) {
			if opened[sha]++; opened[sha] > 1 || offset < 0 || offset > int64(len(content[sha])) {
				t.Errorf("content %q is read from byte %d in attempt %d", sha, offset, opened[sha])
			}
			return content.open(sha, offset)
		}
		received := 0
		host := program(func(s *wicdapi.Session, stdout io.Writer) error {
			var r wicdapi.ReceiveRequest
			_ = s.Request(&r)
			if _, err := stdout.Write(output); err != nil || !hasKey(output, "missing") {
				return err
			}
			n, _ := io.CopyN(io.Discard, s.Body(), 4) // a part of it
			received = int(n)
			return nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // it may wait for input that never arrives
		defer cancel()
		list := []wicdapi.Content{{SHA256: "a", CompressedSize: 10}, {SHA256: "b", CompressedSize: 5}}
		_, err := wicdapi.Send(ctx, canceled{host}, "x", list, open, nil)
		if err == nil && !hasKey(output, "result") || received > 15 {
			t.Errorf("output %q was accepted as a result (%v), %d bytes were sent", output, err, received)
		}
	})
}

// canceled is a host whose command is abandoned when the context ends.
type canceled struct{ program }

func (c canceled) Run(ctx context.Context, command string, stdin io.Reader, stdout io.Writer) error {
	ended := make(chan error, 1)
	go func() { ended <- c.program.Run(ctx, command, stdin, stdout) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
