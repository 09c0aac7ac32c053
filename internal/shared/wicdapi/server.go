package wicdapi

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// Session is WICD's side of one command: the request on stdin, lines on stdout. Its methods are safe for concurrent use.
type Session struct {
	in  *bufio.Reader
	mu  sync.Mutex
	out *json.Encoder
}

// NewSession starts WICD's side of a command.
func NewSession(stdin io.Reader, stdout io.Writer) *Session {
	return &Session{in: bufio.NewReaderSize(stdin, 256<<10), out: json.NewEncoder(stdout)}
}

// Request reads the request, one line of JSON.
func (s *Session) Request(into any) error {
	b, err := s.readLine()
	ended := errors.Is(err, io.EOF)
	if err == nil || ended {
		err = json.Unmarshal(b, into)
	}
	switch {
	case err == nil:
		return nil
	case ended:
		return &Error{Code: CodeInputEnded, Message: fmt.Sprintf("reading the request: the input ended after %d bytes: %v", len(b), err)}
	}
	return &Error{Code: CodeRequestInvalid, Message: fmt.Sprintf("reading the request: %v", err)}
}

// maxRequest limits a request, in bytes. The largest contains a declaration, which fits into two objects of the cluster.
const maxRequest = 16 << 20

// readLine reads a line, or the rest of the input.
func (s *Session) readLine() (line []byte, err error) {
	for {
		part, err := s.in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxRequest:
			return nil, fmt.Errorf("more than %d MiB", maxRequest>>20)
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, err
		}
	}
}

// Brief shortens a list of texts for a result: it truncates the first texts and counts the others, so that the line is not too long to be read.
func Brief(items []string) []string {
	var brief []string
	for _, text := range items[:min(len(items), briefItems)] {
		brief = append(brief, truncate.Text(text, briefText))
	}
	if more := len(items) - briefItems; more > 0 {
		brief = append(brief, fmt.Sprintf("and %d more", more))
	}
	return brief
}

// Body returns what follows the request on stdin.
func (s *Session) Body() io.Reader { return s.in }

// Step reports progress.
func (s *Session) Step(st Step) error {
	st.Name = truncate.Text(st.Name, truncate.Reported)
	return s.write(line{Step: &st})
}

// Missing responds to a ReceiveRequest with what must be sent.
func (s *Session) Missing(m []Missing) error {
	if m == nil {
		m = []Missing{}
	}
	return s.write(line{Missing: &m})
}

// End writes the result, or the error, and returns the exit code for the process.
func (s *Session) End(result any, err error) int {
	if err != nil {
		e := Failed(err)
		if e == nil {
			e = &Error{Code: CodeFailed, Message: err.Error()}
		}
		_ = s.write(line{Error: &Error{Code: e.Code, Message: truncate.Text(e.Message, truncate.Reported)}})
		return 1
	}
	b, err := json.Marshal(result)
	if err != nil {
		return s.End(nil, fmt.Errorf("encoding the result: %w", err))
	}
	if s.write(line{Result: b}) != nil {
		return 1
	}
	return 0
}

func (s *Session) write(l line) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Encode(l)
}
