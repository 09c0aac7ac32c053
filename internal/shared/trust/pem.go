package trust

import (
	"encoding/base64"
	"strings"
)

// Labels of blocks (RFC 7468): certificate is the label of certificates, privateKey is part of the label of any
// private key.
const (
	certificate = "CERTIFICATE"
	privateKey  = "PRIVATE KEY"
)

// block is the text between a BEGIN and an END line, one of which may be missing.
type block struct {
	line  int // of the beginning, from 1
	label string
	// isKey is true if one of its lines mentions a private key; then it has no data.
	isKey bool
	// wrong is why it cannot be read. If it is empty, data is the decoded text of a certificate.
	wrong string
	data  []byte
}

// scan finds all blocks. encoding/pem silently skips damaged ones; here each is found, and scanning continues after
// it. Lines may have any length, end with CR LF, and be indented. Text around blocks is ignored.
func scan(text string) []block {
	var s scanner
	number := 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		line = strings.Trim(line, " \t\r\v\f\ufeff") // editors on Windows add the last one (BOM) at the beginning of files
		if end, begin, joined := cutJoined(line); joined {
			s.read(number, end)
			line = begin
		}
		s.read(number, line)
	}
	s.close("its END line is missing")
	return s.found
}

// cutJoined splits an END and a BEGIN line that were joined by concatenating a file without a newline at its end and
// another one.
func cutJoined(line string) (end, begin string, joined bool) {
	i := strings.LastIndex(line, "-----BEGIN ")
	if i <= 0 {
		return "", "", false
	}
	end = strings.TrimSpace(line[:i])
	m := readMarker(end)
	return end, line[i:], m.word == "END" && m.intact
}

type scanner struct {
	found []block
	open  *block
	body  strings.Builder
}

func (s *scanner) read(number int, line string) {
	m := readMarker(line)
	switch {
	case m.word == "BEGIN":
		s.close("its END line is missing")
		s.open = &block{line: number, label: m.label}
	case m.word == "END" && s.open == nil:
		s.open = &block{line: number, label: m.label, wrong: "its BEGIN line is missing"}
	case m.word == "" && s.open != nil:
		s.body.WriteString(line)
	}
	if m.word == "" || s.open == nil {
		return
	}
	s.open.isKey = s.open.isKey || strings.Contains(m.label, privateKey)
	switch {
	case s.open.wrong != "":
	case !m.intact:
		s.open.wrong = "its " + m.word + " line is damaged or has other text on it"
	case m.label != s.open.label:
		s.open.wrong = "its END line has another label than its BEGIN line"
	}
	if m.word == "END" {
		s.close("")
	}
}

// close ends the open block, if any.
func (s *scanner) close(wrong string) {
	if s.open == nil {
		return
	}
	b := *s.open
	if b.wrong == "" {
		b.wrong = wrong
	}
	if b.wrong == "" && b.label == certificate {
		var err error
		text := strings.Join(strings.Fields(s.body.String()), "") // spaces within lines must not invalidate a certificate
		if b.data, err = base64.StdEncoding.DecodeString(text); err != nil {
			b.data, b.wrong = nil, "its content is not base64"
		}
	}
	s.found = append(s.found, b)
	s.open = nil
	s.body.Reset()
}

// marker is a BEGIN or END line.
type marker struct {
	word   string // BEGIN, END, or empty for all other lines
	label  string
	intact bool
}

// readMarker also recognizes damaged lines: with other dashes, in lower case, or with text around them.
func readMarker(line string) marker {
	if !strings.Contains(line, "--") {
		return marker{}
	}
	upper := strings.ToUpper(line)
	isKnownType := strings.Contains(upper, certificate) || strings.Contains(upper, privateKey)
	for _, word := range []string{"BEGIN", "END"} {
		before, label, found := strings.Cut(upper, word+" ")
		if !found || !isKnownType && !strings.HasSuffix(before, "-") {
			continue
		}
		label, _, _ = strings.Cut(label, "-")
		label = strings.TrimSpace(label)
		return marker{word, label, line == "-----"+word+" "+label+"-----"}
	}
	return marker{}
}

// hasText reports whether a text has more than comments.
func hasText(text string) bool {
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return true
		}
	}
	return false
}
