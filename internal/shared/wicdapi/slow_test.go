package wicdapi_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// scriptedHost is a host on which every command runs this function; it ends with the call.
type scriptedHost func(ctx context.Context, s *wicdapi.Session) error

func (c scriptedHost) Run(ctx context.Context, _ string, stdin io.Reader, stdout io.Writer) error {
	ended := make(chan error, 1)
	go func() { ended <- c(ctx, wicdapi.NewSession(stdin, stdout)) }()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case err := <-ended:
		return err
	}
}

// readSlowly reads the given number of bytes once per second, and reports steps, until the input ends.
func readSlowly(ctx context.Context, s *wicdapi.Session, bytes int64) error {
	for ctx.Err() == nil {
		_ = s.Step(wicdapi.Step{Name: "receiving", Bytes: 1 << 30, Total: 1 << 30})
		if _, err := io.CopyN(io.Discard, s.Body(), bytes); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		time.Sleep(time.Second)
	}
	return ctx.Err()
}

// reportSteps only reports steps.
func reportSteps(ctx context.Context, s *wicdapi.Session) error {
	for ctx.Err() == nil {
		_ = s.Step(wicdapi.Step{Name: "verifying", Bytes: 1, Total: 2})
		time.Sleep(time.Second)
	}
	return ctx.Err()
}

// A joining host has one of few slots while it receives content.
func TestSlowHostReleasesSlot(t *testing.T) {
	const size = 6 << 20
	requestContent := func(s *wicdapi.Session) {
		var r wicdapi.ReceiveRequest
		_ = s.Request(&r)
		_ = s.Missing([]wicdapi.Missing{{SHA256: "a"}})
	}
	for name, test := range map[string]struct {
		host   scriptedHost
		ends   time.Duration // 0 for one that is done
		within time.Duration
	}{
		"a byte a second": {func(ctx context.Context, s *wicdapi.Session) error {
			requestContent(s)
			return readSlowly(ctx, s, 1)
		}, 2 * time.Minute, 5 * time.Second},
		"a little less than enough": {func(ctx context.Context, s *wicdapi.Session) error {
			requestContent(s)
			return readSlowly(ctx, s, 6<<10)
		}, 2 * time.Minute, 5 * time.Second},
		"does not read the request": {func(ctx context.Context, _ *wicdapi.Session) error {
			<-ctx.Done()
			return ctx.Err()
		}, 2 * time.Minute, 5 * time.Second},
		"does not say what is missing": {func(ctx context.Context, s *wicdapi.Session) error {
			var r wicdapi.ReceiveRequest
			_ = s.Request(&r)
			return reportSteps(ctx, s)
		}, 10 * time.Minute, 5 * time.Second},
		"does not end": {func(ctx context.Context, s *wicdapi.Session) error {
			requestContent(s)
			_, _ = io.Copy(io.Discard, s.Body())
			return reportSteps(ctx, s)
		}, 10 * time.Minute, 5 * time.Second},
		"slow, but fast enough": {func(ctx context.Context, s *wicdapi.Session) error {
			requestContent(s)
			if err := readSlowly(ctx, s, 20<<10); err != nil {
				return err
			}
			s.End(wicdapi.ReceiveResult{}, nil)
			return nil
		}, 0, 6 * time.Minute},
		"takes its time at both ends": {func(ctx context.Context, s *wicdapi.Session) error {
			var r wicdapi.ReceiveRequest
			_ = s.Request(&r)
			time.Sleep(9 * time.Minute)
			_ = s.Missing([]wicdapi.Missing{{SHA256: "a"}})
			_, _ = io.Copy(io.Discard, s.Body())
			time.Sleep(9 * time.Minute)
			s.End(wicdapi.ReceiveResult{}, nil)
			return nil
		}, 0, 19 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				open := func(string, int64) (io.ReadCloser, error) {
					return io.NopCloser(bytes.NewReader(make([]byte, size))), nil
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				began := time.Now()
				_, err := wicdapi.Send(ctx, test.host, "wicd receive", []wicdapi.Content{{SHA256: "a", CompressedSize: size}}, open, nil)
				took := time.Since(began)
				time.Sleep(time.Minute) // until the host has noticed, too
				if errors.Is(err, wicdapi.ErrTooSlow) != (test.ends > 0) || test.ends == 0 && err != nil {
					t.Errorf("got %v", err)
				}
				if took < test.ends || took > test.ends+test.within {
					t.Errorf("it ended after %s, want within %s of %s", took, test.within, test.ends)
				}
			})
		})
	}
}

// held is content that the operator withholds, as when many hosts share its bandwidth.
type held struct{ io.Reader }

func (h held) Read(b []byte) (int, error) {
	time.Sleep(5 * time.Minute)
	return h.Reader.Read(b)
}

func (held) Close() error { return nil }

func TestOperatorDelaysDoNotCountAgainstHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := scriptedHost(func(_ context.Context, s *wicdapi.Session) error {
			var r wicdapi.ReceiveRequest
			_ = s.Request(&r)
			_ = s.Missing([]wicdapi.Missing{{SHA256: "a"}})
			_, err := io.Copy(io.Discard, s.Body())
			s.End(wicdapi.ReceiveResult{}, err)
			return err
		})
		open := func(string, int64) (io.ReadCloser, error) { return held{bytes.NewReader(make([]byte, 300<<10))}, nil }
		if _, err := wicdapi.Send(t.Context(), host, "wicd receive", []wicdapi.Content{{SHA256: "a", CompressedSize: 300 << 10}}, open, nil); err != nil {
			t.Error(err)
		}
	})
}
