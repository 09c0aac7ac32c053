package sshserver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestServerKeepsCountersAfterRestart(t *testing.T) {
	const sent = 100_000
	r := start(t, func(o *Options) {
		o.CountersFile = filepath.Join(t.TempDir(), "counters")
		o.Exec = func(_ context.Context, _ Command, stdin io.Reader, _, _ io.Writer) int {
			_, _ = io.Copy(io.Discard, stdin)
			return 0
		}
	})
	for i := range 2 {
		stop := r.serve(t)
		c := r.client(t)
		s := session(t, c)
		s.Stdin = bytes.NewReader(make([]byte, sent))
		if err := s.Run(fmt.Sprint("boot ", i)); err != nil {
			t.Fatal(err)
		}
		stop()
		if err := c.Wait(); err == nil {
			t.Error("the connection outlived the server")
		}
	}
	next, err := New(r.options)
	if err != nil {
		t.Fatal(err)
	}
	got := next.Counters()
	if d := cmp.Diff(r.Counters(), got); d != "" {
		t.Errorf("the next server (-want +got):\n%s", d)
	}
	if got.BytesIn < 2*sent || got.BytesIn > 2*sent+40_000 || got.BytesOut < 1000 {
		t.Errorf("%d bytes in and %d out, want two inputs and handshakes", got.BytesIn, got.BytesOut)
	}
	got = got.Sub(Counters{BytesIn: got.BytesIn, BytesOut: got.BytesOut})
	want := Counters{Connections: 2, ExecChannels: 2, Commands: []string{"boot 0", "boot 1"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("counters (-want +got):\n%s", d)
	}
	first := Counters{Connections: 1, ExecChannels: 1, Commands: []string{"boot 0"}}
	if d := cmp.Diff(Counters{Connections: 1, ExecChannels: 1, Commands: []string{"boot 1"}}, got.Sub(first)); d != "" {
		t.Errorf("since the first boot (-want +got):\n%s", d)
	}
}
