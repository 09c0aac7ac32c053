package terminal

import (
	"bytes"
	"io"
	"regexp"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// Sanitizer writes the output of a program that may be hostile to a terminal. Escape sequences set the title and the clipboard, move the cursor
// over what was printed before, and have terminals type answers. So only colors and styles pass. What else a terminal would obey is written as Go
// escapes it, as \x1b, and so are characters that reverse the direction of text.
type Sanitizer struct {
	out io.Writer
	// held is the beginning of a sequence or of a character whose rest was not written yet.
	held []byte
	// styled says that the terminal may have another style than its own.
	styled bool
}

// NewSanitizer writes to a terminal.
func NewSanitizer(out io.Writer) *Sanitizer { return &Sanitizer{out: out} }

// maxStyle is how long the sequence of a style can be, in bytes.
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

// Close writes what is held, and gives the terminal its own style. The stream stays open.
func (s *Sanitizer) Close() error {
	safe, _ := s.sanitize(s.held, true)
	s.held = nil
	if s.styled {
		safe = append(safe, "\x1b[0m"...)
	}
	_, err := s.out.Write(safe)
	return err
}

// sanitize makes text safe, and returns what cannot be judged without more of it, unless it is the end.
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
		case r == utf8.RuneError && size == 1: // a byte that is no character, as \x9b, which some terminals take for one
			safe = append(safe, `\x`+strconv.FormatUint(uint64(text[0]), 16)...)
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			safe = append(safe, quoted[1:len(quoted)-1]...)
		}
		text = text[size:]
	}
	return safe, nil
}
