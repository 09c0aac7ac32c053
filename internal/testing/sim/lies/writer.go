package lies

import (
	"bytes"
	"io"
	"sync"
)

// Writer returns a writer that passes lines to another writer and lies about some of them. Close passes on an unterminated line.
func (l *Liar) Writer(to io.Writer, chance float64) io.WriteCloser {
	return &writer{liar: l, to: to, chance: chance}
}

type writer struct {
	liar   *Liar
	to     io.Writer
	chance float64

	mu   sync.Mutex
	rest []byte
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest = append(w.rest, p...)
	for {
		line, rest, whole := bytes.Cut(w.rest, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		w.rest = bytes.Clone(rest)
		if err := w.pass(line); err != nil {
			return 0, err
		}
	}
}

func (w *writer) pass(line []byte) error {
	lines := [][]byte{line}
	if w.liar.Chance(w.chance) {
		lines = w.liar.Line(line)
	}
	for _, line := range lines {
		if _, err := w.to.Write(append(bytes.Clone(line), '\n')); err != nil {
			return err
		}
	}
	return nil
}

// Close implements io.Closer.
func (w *writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.rest) == 0 {
		return nil
	}
	return w.pass(w.rest)
}
