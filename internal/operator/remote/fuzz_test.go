package remote

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/pkg/sftp"
)

// script is the server of an SFTP session: it answers each packet with its next one, whatever they are.
type script struct {
	packets [][]byte

	mu       sync.Mutex
	turn     *sync.Cond
	received []byte
	turns    int // number of answers due
	pending  []byte
	closed   bool
}

func newScript(stream []byte) *script {
	s := &script{}
	s.turn = sync.NewCond(&s.mu)
	for len(stream) > 0 {
		length := min(4+packetLength(stream), len(stream))
		s.packets, stream = append(s.packets, stream[:length]), stream[length:]
	}
	return s
}

// packetLength returns the length in the first four bytes of a packet, at most 1 MiB.
func packetLength(b []byte) int {
	if len(b) < 4 {
		return len(b)
	}
	return int(min(binary.BigEndian.Uint32(b), 1<<20))
}

func (s *script) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, io.ErrClosedPipe
	}
	s.received = append(s.received, b...)
	for len(s.received) >= 4 && len(s.received) >= 4+packetLength(s.received) {
		s.received = s.received[4+packetLength(s.received):]
		s.turns++
	}
	s.turn.Broadcast()
	return len(b), nil
}

func (s *script) Read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.pending) == 0 {
		switch {
		case s.closed || len(s.packets) == 0:
			return 0, io.EOF
		case s.turns > 0:
			s.turns--
			s.pending, s.packets = s.packets[0], s.packets[1:]
		default:
			s.turn.Wait()
		}
	}
	n := copy(b, s.pending)
	s.pending = s.pending[n:]
	return n, nil
}

func (s *script) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.turn.Broadcast()
	return nil
}

// recorded returns the answers of a real server to a Put into a folder that has a part of an earlier Put.
func recorded(f *testing.F) []byte {
	f.Helper()
	here, found := net.Pipe()
	server, err := sftp.NewServer(found, sftp.WithServerWorkingDirectory(f.TempDir()))
	if err != nil {
		f.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve() })
	var answered bytes.Buffer
	c, err := sftp.NewClientPipe(io.TeeReader(here, &answered), here)
	if err != nil {
		f.Fatal(err)
	}
	s := &sftpSession{c, &answers{}}
	if err := s.put("program.exe", strings.NewReader("content"), 7); err != nil {
		f.Fatal(err)
	}
	_ = c.Close()
	_ = found.Close()
	served.Wait()
	return bytes.Clone(answered.Bytes())
}

// TestStatWithoutAttributesIsAnError: a panic here would end the operator for all hosts.
func TestStatWithoutAttributesIsAnError(t *testing.T) {
	const version, attributes = "\x00\x00\x00\x05\x02\x00\x00\x00\x03", "\x00\x00\x00\x11\x65\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	s := newScript([]byte(version + attributes))
	a := &answers{from: s}
	c, err := sftp.NewClientPipe(a, s)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := (&sftpSession{c, a}).put("program.exe", strings.NewReader("content"), 7); err == nil || !strings.Contains(err.Error(), "without attributes") {
		t.Errorf("got %v", err)
	}
}

// FuzzAnswersOfSFTP checks that each call ends whatever the server answers, and that Put succeeds only if the server confirmed each step.
func FuzzAnswersOfSFTP(f *testing.F) {
	whole := recorded(f)
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add([]byte("\x00\x00\x00\x05\x02\x00\x00\x00\x03\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		s := newScript(stream)
		a := &answers{from: s}
		c, err := sftp.NewClientPipe(a, s)
		if err != nil {
			return
		}
		defer c.Close()
		session := &sftpSession{c, a}
		if err := session.put(filepath.Base("program.exe"), strings.NewReader("content"), 7); err == nil && len(stream) < 40 {
			t.Errorf("%d bytes of answers were enough for a file", len(stream))
		}
		if session.put("program.exe", strings.NewReader("too short"), 70) == nil && len(s.packets) == 0 && len(stream) < 40 {
			t.Error("content that ends early was taken for a file")
		}
		files := &Files{t.Context(), session}
		_, _ = files.Exists("folder")
		if path, err := files.Path("program.exe"); err == nil && len(path) > len(stream) {
			t.Errorf("%d bytes of answers became a name of %d", len(stream), len(path))
		}
	})
}

// FuzzStandardError checks that the reported standard error of a command is short text without control characters, however it was written.
func FuzzStandardError(f *testing.F) {
	f.Add([]byte("Zugriff verweigert\r\n\x1b[31mred\x00\x84\xe4"), 3)
	f.Add(bytes.Repeat([]byte("ä\u2028\n"), 3000), 1000)
	f.Fuzz(func(t *testing.T, written []byte, at int) {
		var kept tail
		for len(written) > 0 {
			n := min(max(at, 1), len(written))
			if wrote, err := kept.Write(written[:n]); wrote != n || err != nil {
				t.Fatal(errors.Join(err, io.ErrShortWrite))
			}
			written = written[n:]
		}
		text := kept.String()
		if len(text) > tailSize*3+10 || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' }) {
			t.Errorf("the text has %d bytes: %.100q", len(text), text)
		}
	})
}
