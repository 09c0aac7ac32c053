package proxy

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// pieceSize is the size of one read: 1.3 ms of a line with 100 Mbit/s.
	pieceSize = 16 << 10
	// onTheWay is the maximum number of pieces in flight, 16 MB: more than any line of interest.
	onTheWay = 1024
	// readAhead is how long before its time a piece is read, like a small queue at the beginning of the line. Timers are late by
	// up to a millisecond, which would otherwise be lost with every piece.
	readAhead = 10 * time.Millisecond
)

// A line is one direction. Connections share its rate.
type line struct {
	delay time.Duration
	rate  int64 // bytes per second, 0 for no limit

	mu   sync.Mutex
	free time.Time // when everything accepted so far is sent
}

// A piece is delivered at its time.
type piece struct {
	data []byte
	due  time.Time
}

// pass copies bytes until from ends (nil) or an end fails.
func (l *line) pass(from io.Reader, to io.Writer) error {
	pieces := make(chan piece, onTheWay)
	failed := make(chan struct{}) // closed after a failed delivery
	var readError error
	go func() {
		defer close(pieces)
		readError = l.read(from, pieces, failed)
	}()
	defer close(failed)
	for p := range pieces {
		time.Sleep(time.Until(p.due))
		if _, err := to.Write(p.data); err != nil {
			return err
		}
	}
	return readError
}

// read reads pieces from a peer at the rate of the line.
func (l *line) read(from io.Reader, pieces chan<- piece, failed <-chan struct{}) error {
	for {
		data := make([]byte, pieceSize)
		n, err := from.Read(data)
		if n > 0 {
			sent := l.accept(n)
			select {
			case pieces <- piece{data: data[:n], due: sent.Add(l.delay)}:
			case <-failed:
				return net.ErrClosed
			}
			time.Sleep(time.Until(sent) - readAhead)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// accept returns the time when the line will have sent n more bytes.
func (l *line) accept(n int) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.free.Before(now) {
		l.free = now
	}
	if l.rate > 0 {
		l.free = l.free.Add(time.Duration(int64(n) * int64(time.Second) / l.rate))
	}
	return l.free
}
