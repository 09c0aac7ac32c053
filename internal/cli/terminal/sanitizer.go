package terminal

import (
	"bytes"
	"io"
	"regexp"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// Sanitizer writes the output of a possibly hostile program to a terminal. Escape sequences could set the title and the clipboard, overwrite
// earlier output, and make the terminal type responses. Only colors and styles pass. All other control characters and characters that reverse
// the text direction are escaped as in Go, for example \x1b.
type Sanitizer struct {
	out io.Writer
	// held is the beginning of an incomplete sequence or character.
	held []byte
	// styled means that the terminal's style may have been changed.
	styled bool
}

// NewSanitizer returns a Sanitizer that writes to a terminal.
func NewSanitizer(out io.Writer) *Sanitizer { return &Sanitizer{out: out} }

// maxStyle limits the sequence of a style, in bytes.
const maxStyle = 64

// Write implements io.Writer.
func (s *Sanitizer) Write(p []byte) (int, error) {
	safe, rest := s.sanitize(append(s.held, p...), false)
	s.held = bytes.Clone(rest)
	if _, err := s.out.Write(safe); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close writes the held bytes and resets the terminal's style. It does not close the stream.
func (s *Sanitizer) Close() error {
	safe, _ := s.sanitize(s.held, true)
	s.held = nil
	if s.styled {
		safe = append(safe, "\x1b[0m"...)
	}
	_, err := s.out.Write(safe)
	return err
}

// sanitize returns the safe text and, unless isEnd, the rest that needs more input to decide.
func (s *Sanitizer) sanitize(text []byte, isEnd bool) (safe, rest []byte) {
	style := regexp.MustCompile(`^\x1b\[[0-9;:]*m`)
	beginning := regexp.MustCompile(`^\x1b(\[[0-9;:]*)?$`)
	for len(text) > 0 {
		if found := style.Find(text[:min(len(text), maxStyle)]); found != nil {
			safe, text, s.styled = append(safe, found...), text[len(found):], true
			continue
		}
		r, size := utf8.DecodeRune(text)
		isOpen := !utf8.FullRune(text) || string(text) == "\r" || len(text) < maxStyle && beginning.Match(text)
		switch {
		case isOpen && !isEnd:
			return safe, text
		case r == '\n', r == '\t', r == '\r' && bytes.HasPrefix(text, []byte("\r\n")), unicode.IsGraphic(r) && (r != utf8.RuneError || size > 1):
			safe = append(safe, text[:size]...)
		case r == utf8.RuneError && size == 1: // an invalid byte such as \x9b, which some terminals interpret
			safe = append(safe, `\x`+strconv.FormatUint(uint64(text[0]), 16)...)
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			safe = append(safe, quoted[1:len(quoted)-1]...)
		}
		text = text[size:]
	}
	return safe, nil
}
