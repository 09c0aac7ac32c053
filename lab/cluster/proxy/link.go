package proxy

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// chunkSize is the size of one read. A link with 100 Mbit/s transfers a chunk in 1.3 ms.
	chunkSize = 16 << 10
	// maxInFlight is the maximum number of chunks in flight, 16 MB, which is more than the simulated links need.
	maxInFlight = 1024
	// readAhead is how early the next chunk is read, like a small queue at the start of the link. Without it, each chunk would
	// lose up to a millisecond, because timers fire late.
	readAhead = 10 * time.Millisecond
)

// A link is one direction of the simulated connection. All connections share its rate.
type link struct {
	delay time.Duration
	rate  int64 // bytes per second, 0 for no limit

	mu   sync.Mutex
	free time.Time // when the link has sent all accepted bytes
}

// A chunk is delivered when it is due.
type chunk struct {
	data []byte
	due  time.Time
}

// forward copies bytes until from ends, which is not an error, or reading or writing fails.
func (l *link) forward(from io.Reader, to io.Writer) error {
	chunks := make(chan chunk, maxInFlight)
	failed := make(chan struct{}) // closed after a failed delivery
	var readError error
	go func() {
		defer close(chunks)
		readError = l.read(from, chunks, failed)
	}()
	defer close(failed)
	for c := range chunks {
		time.Sleep(time.Until(c.due))
		if _, err := to.Write(c.data); err != nil {
			return err
		}
	}
	return readError
}

// read reads chunks at the rate of the link.
func (l *link) read(from io.Reader, chunks chan<- chunk, failed <-chan struct{}) error {
	for {
		data := make([]byte, chunkSize)
		n, err := from.Read(data)
		if n > 0 {
			sent := l.accept(n)
			select {
			case chunks <- chunk{data: data[:n], due: sent.Add(l.delay)}:
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

// accept returns the time when the link will have sent n more bytes.
func (l *link) accept(n int) time.Time {
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
