package contract

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/policypipe"
)

// PipeName is the name of the pipe that the tests create.
const PipeName = `\\.\pipe\wicd-contract`

// PipesFixture are the named pipes of a host for one test, without one of the tests.
type PipesFixture struct {
	Pipes hostapi.Pipes
	// Dial connects to a pipe as a program of the host does.
	Dial func(ctx context.Context, name string) (net.Conn, error)
	// SharesNames is why this Windows lets several listeners have one name; empty if it does not.
	SharesNames string
}

// Pipes checks the contract of hostapi.Pipes.
func Pipes(t *testing.T, fixture func(t *testing.T) PipesFixture) {
	run(t, fixture, []test[PipesFixture]{
		{"PipesCarryBothDirections", pipesCarryBothDirections},
		{"NameHasOneListener", nameHasOneListener},
		{"ClosingEndsAccept", closingEndsAccept},
		{"ReadsEndAtDeadline", readsEndAtDeadline},
		{"ManyPodsAskAtOnce", manyPodsAskAtOnce},
	})
}

func mustListen(t *testing.T, f PipesFixture) net.Listener {
	t.Helper()
	l, err := f.Pipes.Listen(PipeName)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// mustConnect returns both ends of a connection.
func mustConnect(t *testing.T, f PipesFixture, l net.Listener) (client, server net.Conn) {
	t.Helper()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	client, err := f.Dial(deadline(t), PipeName)
	if err != nil {
		t.Fatal(err)
	}
	server = <-accepted
	t.Cleanup(func() { _ = errors.Join(client.Close(), server.Close()) })
	return client, server
}

func pipesCarryBothDirections(t *testing.T, f PipesFixture) {
	client, server := mustConnect(t, f, mustListen(t, f))
	for name, ends := range map[string][2]net.Conn{"to the server": {client, server}, "to the client": {server, client}} {
		wrote := make(chan error, 1)
		go func() { _, err := ends[0].Write([]byte(name)); wrote <- err }()
		got := make([]byte, len(name))
		if _, err := io.ReadFull(ends[1], got); err != nil || string(got) != name {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
		if err := <-wrote; err != nil {
			t.Error(err)
		}
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("reading after the client has closed: %v, want the end of the data", err)
	}
}

func nameHasOneListener(t *testing.T, f PipesFixture) {
	first := mustListen(t, f)
	client, server := mustConnect(t, f, first)
	if f.SharesNames == "" {
		if second, err := f.Pipes.Listen(PipeName); err == nil {
			t.Error("a second listener has the name")
			_ = second.Close()
		}
	}
	if err := errors.Join(client.Close(), server.Close(), first.Close()); err != nil {
		t.Fatal(err)
	}
	mustConnect(t, f, mustListen(t, f))
}

func closingEndsAccept(t *testing.T, f PipesFixture) {
	l := mustListen(t, f)
	ended := make(chan error, 1)
	go func() {
		_, err := l.Accept()
		ended <- err
	}()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-ended:
		if err == nil {
			t.Error("Accept returned a connection")
		}
	case <-deadline(t).Done():
		t.Fatal("Accept does not end")
	}
}

func readsEndAtDeadline(t *testing.T, f PipesFixture) {
	client, server := mustConnect(t, f, mustListen(t, f))
	for name, c := range map[string]net.Conn{"client": client, "server": server} {
		if err := c.SetDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); !isTimeout(err) {
			t.Errorf("a read of the %s ended with %v", name, err)
		}
	}
}

func manyPodsAskAtOnce(t *testing.T, f PipesFixture) {
	ctx, end := context.WithCancel(t.Context())
	served := make(chan error, 1)
	l := mustListen(t, f)
	go func() {
		served <- policypipe.Serve(ctx, l, func(context.Context, policypipe.Request) error { return nil })
	}()
	pod := policypipe.Request{Namespace: "shop", Name: "web", UID: "1", ContainerID: "1", Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.7")}}
	var pods sync.WaitGroup
	for range 30 {
		pods.Go(func() {
			c, err := f.Dial(deadline(t), PipeName)
			if err == nil {
				err = policypipe.Call(deadline(t), c, pod)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	pods.Wait()
	end()
	if err := <-served; err != nil {
		t.Error(err)
	}
	mustListen(t, f) // all connections are closed
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
