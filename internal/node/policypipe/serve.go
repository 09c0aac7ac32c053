package policypipe

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// Program is the network plugin that asks.
const Program = "wicd-cni.exe"

// Limits of one call. WICD answers before the plugin gives up, so that the cause is known.
const (
	// CallTimeout is how long the plugin waits in total, including for the pipe.
	CallTimeout = 30 * time.Second
	// answerTimeout is how long WICD works on a request, transferTimeout how long either side may take to send its message.
	answerTimeout   = 20 * time.Second
	transferTimeout = 5 * time.Second
	// maxConnections are served at once; others wait until one is free.
	maxConnections = 64
)

// RefusedError is WICD's answer that the rules of a pod are not in force.
type RefusedError struct {
	// Cause is what prevents it, in at most 1,024 bytes.
	Cause string
}

// Error implements error.
func (e *RefusedError) Error() string { return e.Cause }

// Serve answers requests until ctx is done, and closes the listener. The handler returns nil once the rules of the pod are in force; its
// context ends after 20 seconds. It must be safe for concurrent calls. Serve returns when all connections are closed, with an error only if
// the listener failed.
func Serve(ctx context.Context, l net.Listener, handler func(context.Context, Request) error) error {
	ctx, end := context.WithCancel(ctx)
	var serving sync.WaitGroup
	defer serving.Wait()
	defer end()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	defer l.Close()
	free := make(chan struct{}, maxConnections)
	for {
		select {
		case <-ctx.Done():
			return nil
		case free <- struct{}{}:
		}
		conn, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = conn.Close()
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("accepting a connection: %w", err)
		}
		serving.Go(func() {
			defer func() { <-free }()
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			answer(ctx, conn, handler)
		})
	}
}

// answer serves one connection. A client that sends nothing, or does not read, loses its connection.
func answer(ctx context.Context, conn net.Conn, handler func(context.Context, Request) error) {
	_ = conn.SetDeadline(time.Now().Add(transferTimeout))
	line, err := readLine(conn)
	if err != nil {
		return // there is no client that could use a response
	}
	a := response{InForce: true}
	r, err := decode[Request](line)
	if err != nil {
		err = fmt.Errorf("WICD cannot read the request: %w", err)
	} else {
		ctx, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		err = handler(ctx, r)
	}
	if err != nil {
		a = response{Refused: truncate.Text("WICD: "+err.Error(), maxCause)}
	}
	if line, err = encode(a); err != nil { // control characters are longer in JSON
		line, _ = encode(response{Refused: "WICD: the cause is too long; see WICD's log"})
	}
	_ = conn.SetDeadline(time.Now().Add(transferTimeout))
	if _, err := conn.Write(line); err == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(conn, 1)) // closing a pipe discards what the client has not read
	}
}

// Call asks whether the rules of a pod are in force, and closes the connection. It returns nil only if WICD says so; what WICD refuses is a
// *RefusedError. It ends with ctx.
func Call(ctx context.Context, conn net.Conn, r Request) error {
	defer conn.Close()
	if err := r.check(); err != nil {
		return err
	}
	line, err := encode(r)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if _, err := conn.Write(line); err != nil {
		return because(ctx, "sending the request", err)
	}
	if line, err = readLine(conn); err != nil {
		return because(ctx, "waiting for the response", err)
	}
	a, err := decode[response](line)
	if err != nil {
		return fmt.Errorf("reading the response: %w", err)
	}
	if a.Refused != "" {
		return &RefusedError{Cause: truncate.Text(a.Refused, maxCause)}
	}
	return nil
}

func because(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// readLine reads a line of at most maxMessage bytes. Nothing may follow it: both sides send one line and then wait.
func readLine(conn net.Conn) ([]byte, error) {
	buffer := bufio.NewReaderSize(conn, maxMessage)
	line, err := buffer.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, fmt.Errorf("the message has more than %d bytes", maxMessage)
	}
	if err == nil && buffer.Buffered() > 0 {
		return nil, errors.New("there is data after the message")
	}
	return line, err
}
