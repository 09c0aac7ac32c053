package identity_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/identity"
)

// memory is a store, and a bootstrapper whose cluster gives a sequence of answers.
type memory struct {
	files   map[string][]byte
	answers []error
	// names are the names of the requests, times their times.
	names []string
	times []time.Time
}

func (m *memory) Read(name string) ([]byte, error) {
	b, found := m.files[name]
	if !found {
		return nil, fs.ErrNotExist
	}
	return b, nil
}

func (m *memory) Write(name string, content []byte) error { m.files[name] = content; return nil }
func (m *memory) Remove(name string) error                { delete(m.files, name); return nil }

func (m *memory) Bootstrap(ctx context.Context, manager *identity.Manager) (identity.Identity, error) {
	return manager.Request(ctx, m)
}

func (m *memory) Issue(ctx context.Context, p identity.Pending) ([]byte, error) {
	m.names, m.times = append(m.names, p.Name), append(m.times, time.Now())
	if len(m.names) > len(m.answers) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, m.answers[len(m.names)-1]
}

// A failed request is repeated soon with the same key; a refused one, much later with another key.
func TestRefusedAndFailedRequestsAreRetried(t *testing.T) {
	for name, test := range map[string]struct {
		answer  error
		sameKey bool
		atLeast time.Duration
		atMost  time.Duration
	}{
		"fails":      {errors.New("no connection"), true, time.Second, 2 * time.Second},
		"is refused": {identity.ErrRefused, false, identity.RefusedPause, identity.RefusedPause},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				m := &memory{files: map[string][]byte{}, answers: []error{test.answer}}
				manager := &identity.Manager{
					Name: identity.Name{User: "system:somebody:win-1", Group: "system:somebodies"}, Prefix: "somebody-",
					Store: m, Current: "current", Pending: "pending", Bootstrap: m.Bootstrap,
					Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Issued: func(identity.Identity) {}, Pauses: func() func() time.Duration { return backoff.New().Next },
				}
				if _, err := manager.Identify(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("the error is %v", err)
				}
				if len(m.names) != 2 || (m.names[0] == m.names[1]) != test.sameKey {
					t.Fatalf("the requests are %q, with the same key: want %v", m.names, test.sameKey)
				}
				if pause := m.times[1].Sub(m.times[0]); pause < test.atLeast || pause > test.atMost {
					t.Errorf("the pause is %v, want %v to %v", pause, test.atLeast, test.atMost)
				}
			})
		})
	}
}
