package trust

import (
	"encoding/base64"
	"strings"
)

// Labels of blocks (RFC 7468): certificate is that of those that hold one, privateKey is part of those of all keys.
const (
	certificate = "CERTIFICATE"
	privateKey  = "PRIVATE KEY"
)

// block is what lies between a BEGIN line and an END line, one of which may be missing.
type block struct {
	line  int // of its beginning, from 1
	label string
	// isKey tells that one of its lines speaks of a private key; then it has no data.
	isKey bool
	// wrong says why it cannot be read, or is empty. Then data is what a certificate's text decodes to.
	wrong string
	data  []byte
}

// scan finds all blocks. encoding/pem skips those that are damaged and does not tell; here each is found, and reading
// goes on behind it. Lines may have any length, end as on Windows, and be indented. What is around blocks is ignored.
func scan(text string) []block {
	var s scanner
	number := 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		line = strings.Trim(line, " \t\r\v\f\ufeff") // the last is what editors on Windows begin files with
		if end, begin, joined := cutJoined(line); joined {
			s.read(number, end)
			line = begin
		}
		s.read(number, line)
	}
	s.close("its END line is missing")
	return s.found
}

// cutJoined takes an END and a BEGIN line apart that became one because a file without a newline at its end was
// put in front of another.
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
		s.open.wrong = "its " + m.word + " line is damaged, or not alone in its line"
	case m.label != s.open.label:
		s.open.wrong = "its END line belongs to something else"
	}
	if m.word == "END" {
		s.close("")
	}
}

// close ends the block that is open, if any.
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
		text := strings.Join(strings.Fields(s.body.String()), "") // spaces within lines are no reason to lose a certificate
		if b.data, err = base64.StdEncoding.DecodeString(text); err != nil {
			b.data, b.wrong = nil, "what is between its BEGIN and END lines is not base64"
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

// readMarker also knows lines that were damaged: with other dashes, in lower case, or with something around.
func readMarker(line string) marker {
	if !strings.Contains(line, "--") {
		return marker{}
	}
	upper := strings.ToUpper(line)
	ours := strings.Contains(upper, certificate) || strings.Contains(upper, privateKey)
	for _, word := range []string{"BEGIN", "END"} {
		before, label, found := strings.Cut(upper, word+" ")
		if !found || !ours && !strings.HasSuffix(before, "-") {
			continue
		}
		label, _, _ = strings.Cut(label, "-")
		label = strings.TrimSpace(label)
		return marker{word, label, line == "-----"+word+" "+label+"-----"}
	}
	return marker{}
}

// hasText tells whether there is more than comments in a text.
func hasText(text string) bool {
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return true
		}
	}
	return false
}
