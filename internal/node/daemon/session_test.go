package daemon

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestPartsThatDoNotEndAreNamed lets one part outlast its session, which must neither be silent nor begin the next session.
func TestPartsThatDoNotEndAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		free := make(chan struct{})
		await := start(ctx, []part{
			{"routes", func(ctx context.Context) { <-ctx.Done() }},
			{"policy server", func(context.Context) { <-free }},
		})
		time.Sleep(time.Hour)
		cancel()
		began := time.Now()
		time.AfterFunc(time.Hour, func() { close(free) })
		await(slog.New(slog.NewTextHandler(&log, nil)))
		if waited := time.Since(began); waited != time.Hour {
			t.Errorf("the session ended after %s, want an hour", waited)
		}
		if text := log.String(); strings.Count(text, "have not stopped") != 1 || !strings.Contains(text, `parts="policy server"`) {
			t.Errorf("the log does not name the part once:\n%s", text)
		}
	})
}
