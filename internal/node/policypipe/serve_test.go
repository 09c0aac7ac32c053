package policypipe

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/test/bufconn"
)

// server is Serve with a handler.
type server struct {
	*bufconn.Listener
	end  context.CancelFunc
	done chan error
}

func serve(t *testing.T, handler func(context.Context, Request) error) server {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	s := server{Listener: bufconn.Listen(1 << 10), end: end, done: make(chan error, 1)}
	go func() { s.done <- Serve(ctx, s.Listener, handler) }()
	return s
}

func (s server) stop(t *testing.T) {
	t.Helper()
	s.end()
	if err := <-s.done; err != nil {
		t.Error(err)
	}
}

func (s server) mustDial(t *testing.T) net.Conn {
	t.Helper()
	c, err := s.DialContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (s server) call(t *testing.T) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), CallTimeout)
	defer cancel()
	return Call(ctx, s.mustDial(t), web())
}

func accept(context.Context, Request) error { return nil }

func TestHandlerGetsRequestAndDecides(t *testing.T) {
	for name, want := range map[string]error{
		"in force":            nil,
		"refused":             errors.New("namespace shop has no set yet"),
		"refused, long cause": errors.New(strings.Repeat("a long cause ", 1000)),
		"refused, many bytes": errors.New(strings.Repeat("\x00", 1000)),
		"refused, no UTF-8":   errors.New("\xff\xfe"),
		"refused, no cause":   errors.New(""),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, func(_ context.Context, r Request) error {
					if !reflect.DeepEqual(r, web()) {
						t.Errorf("got %+v", r)
					}
					return want
				})
				defer s.stop(t)
				err := s.call(t)
				refused := new(RefusedError)
				if want == nil && err != nil || want != nil && (!errors.As(err, &refused) || !strings.HasPrefix(refused.Cause, "WICD: ") || len(refused.Cause) > maxCause) {
					t.Errorf("got %v, want %v", err, want)
				}
			})
		})
	}
}

func TestSilentClientsDelayNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, accept)
		defer s.stop(t)
		for range maxConnections - 1 {
			defer s.mustDial(t).Close()
		}
		began := time.Now()
		if err := s.call(t); err != nil || time.Since(began) > 0 {
			t.Errorf("answered after %s: %v", time.Since(began), err)
		}
	})
}

func TestSilentClientsLoseConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, accept)
		defer s.stop(t)
		for range maxConnections {
			defer s.mustDial(t).Close()
		}
		synctest.Wait()
		began := time.Now()
		if err := s.call(t); err != nil || time.Since(began) != transferTimeout {
			t.Errorf("answered after %s, want %s: %v", time.Since(began), transferTimeout, err)
		}
	})
}

func TestClientThatDoesNotReadLosesConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, accept)
		defer s.stop(t)
		c := s.mustDial(t)
		defer c.Close()
		line, _ := encode(web())
		if _, err := c.Write(line); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * transferTimeout)
		got, err := io.ReadAll(c)
		if want := `{"inForce":true}` + "\n"; string(got) != want || err != nil {
			t.Errorf("got %q, %v; want %q and the end of the connection", got, err, want)
		}
	})
}

func TestInvalidRequestsDoNotReachHandler(t *testing.T) {
	line, err := encode(web())
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ sent, want string }{
		"other content":     {"GET / HTTP/1.1\n", "WICD cannot read the request"},
		"no pod":            {strings.Replace(string(line), "shop", "SHOP", 1), `namespace is \"SHOP\"`},
		"too long":          {strings.Repeat("x", maxMessage) + "\n", ""},
		"two requests":      {string(line) + string(line), ""},
		"half of a request": {string(line[:len(line)/2]), ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, func(context.Context, Request) error {
					t.Error("the handler is called")
					return nil
				})
				defer s.stop(t)
				c := s.mustDial(t)
				defer c.Close()
				go func() { _, _ = c.Write([]byte(test.sent)) }()
				got, _ := io.ReadAll(c)
				if bytes.Contains(got, []byte("inForce")) || !bytes.Contains(got, []byte(test.want)) || test.want == "" && len(got) > 0 {
					t.Errorf("got %q, want %q", got, test.want)
				}
			})
		})
	}
}

func TestSlowHandlerIsEndedBeforeClientGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(ctx context.Context, _ Request) error {
			<-ctx.Done()
			return errors.New("HNS does not answer")
		})
		defer s.stop(t)
		if err := s.call(t); err == nil || err.Error() != "WICD: HNS does not answer" {
			t.Errorf("got %v", err)
		}
	})
}

func TestServeEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(ctx context.Context, _ Request) error {
			<-ctx.Done()
			return ctx.Err()
		})
		idle := s.mustDial(t)
		defer idle.Close()
		called := make(chan error, 1)
		go func() { called <- s.call(t) }()
		synctest.Wait()
		began := time.Now()
		s.stop(t)
		if err := <-called; err == nil {
			t.Error("a call that was not answered counts as rules in force")
		}
		if time.Since(began) > 0 {
			t.Errorf("ended after %s", time.Since(began))
		}
		if _, err := s.DialContext(t.Context()); err == nil {
			t.Error("the listener is still open")
		}
	})
}

func TestServeReturnsErrorOfListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, accept)
		_ = s.Close()
		if err := <-s.done; err == nil {
			t.Error("no error")
		}
		s.end()
	})
}

func TestOnlyAnswerOfWICDMeansInForce(t *testing.T) {
	for name, test := range map[string]struct{ answer, want string }{
		"nothing":       {"", "waiting for the response: EOF"},
		"part":          {`{"inForce":true}`, "waiting for the response: EOF"},
		"other fields":  {`{"inForce":true,"mode":"Report"}` + "\n", "reading the response"},
		"two responses": {strings.Repeat(`{"inForce":true}`+"\n", 2), "waiting for the response: there is data after the message"},
		"too long":      {strings.Repeat("x", 2*maxMessage), "more than 4096 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, other := net.Pipe()
				go func() {
					_, _ = readLine(other)
					_, _ = other.Write([]byte(test.answer))
					_ = other.Close()
				}()
				if err := Call(t.Context(), client, web()); err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("got %v, want %s", err, test.want)
				}
			})
		})
	}
}

func TestCallEndsWithItsContext(t *testing.T) {
	for _, reads := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			client, other := net.Pipe()
			defer other.Close()
			if reads {
				go func() { _, _ = readLine(other) }()
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := Call(ctx, client, web()); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		})
	}
}
