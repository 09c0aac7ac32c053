// Package mask hides secrets in texts that other programs wrote: known secrets, in the encodings that programs use, and text that looks like a
// secret by its structure, its name or its form. It does no I/O. It cannot detect a secret that is neither known nor looks like one, so callers
// first select which output of other programs to show, and then mask it.
package mask

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// Mark replaces secrets.
const Mark = "***"

const (
	// minSecret is the minimum length of a known secret: shorter ones would mask half of every log.
	minSecret = 5
	// minPart is the minimum length of the part of a known secret that identifies it within longer base64 text.
	minPart = 12
	// maxLine limits a line. The rest is dropped.
	maxLine = 16 << 10
	// maxDepth limits nested texts: JSON in a JSON string, base64 in base64.
	maxDepth = 8
)

// Masker masks secrets in texts.
type Masker struct {
	known  *strings.Replacer
	shapes []shape
	tools  map[string]tool
}

// New returns a masker that knows these secrets.
func New(secrets ...string) *Masker {
	forms := map[string]bool{}
	for _, s := range secrets {
		if s = strings.TrimSpace(s); len(s) < minSecret {
			continue
		}
		for _, form := range formsOf(s) {
			forms[form] = true
		}
	}
	var list []string
	for form := range forms {
		if len(form) >= minSecret {
			list = append(list, form)
		}
	}
	// Longest first: one form may be a prefix of another.
	slices.SortFunc(list, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	var pairs []string
	for _, form := range list {
		pairs = append(pairs, form, Mark)
	}
	return &Masker{known: strings.NewReplacer(pairs...), shapes: shapes(), tools: tools()}
}

// formsOf returns the encodings in which programs write a secret.
func formsOf(secret string) []string {
	inJSON := func(s string) string {
		quoted, _ := json.Marshal(s)
		return strings.TrimSuffix(strings.TrimPrefix(string(quoted), `"`), `"`)
	}
	inGo := strconv.Quote(secret)
	wide := wideOf(secret)
	forms := []string{
		secret, inJSON(secret), inJSON(inJSON(secret)), inGo[1 : len(inGo)-1], html.EscapeString(secret), strings.ReplaceAll(secret, "'", "''"),
		url.QueryEscape(secret), url.PathEscape(secret), url.UserPassword("", secret).String()[1:], strings.ReplaceAll(url.QueryEscape(secret), "+", "%20"),
		strings.ToLower(url.QueryEscape(secret)), wide, hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret))),
	}
	for _, s := range []string{secret, wide} {
		forms = append(forms, base64.StdEncoding.EncodeToString([]byte(s)), base64.URLEncoding.EncodeToString([]byte(s)))
		forms = append(forms, insideBase64(s)...)
	}
	if decoded, err := url.QueryUnescape(secret); err == nil {
		forms = append(forms, decoded)
	}
	return forms
}

// wideOf returns a text in UTF-16, as Windows writes it.
func wideOf(s string) string {
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune(s)) {
		b.WriteByte(byte(unit))
		b.WriteByte(byte(unit >> 8))
	}
	return b.String()
}

// insideBase64 returns the base64 forms of a secret within a longer text, at any offset, without the characters that depend on adjacent bytes.
func insideBase64(s string) (forms []string) {
	for before := range 3 {
		whole := append(make([]byte, before), s...)
		first := (before*8 + 5) / 6
		last := len(whole) * 8 / 6
		for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			if form := e.EncodeToString(whole)[first:last]; len(form) >= minPart {
				forms = append(forms, form)
			}
		}
	}
	return forms
}

// Text masks a text of several lines: JSON and YAML by structure, everything else line by line.
func (m *Masker) Text(text string) string { return m.text(text, 0) }

func (m *Masker) text(text string, depth int) string {
	text = narrow(m.known.Replace(text))
	if masked, isJSON := m.json(text, depth); isJSON {
		return masked
	}
	document := newDocument(text)
	for i := range document.lines {
		document.write(i, m, depth)
	}
	return document.String()
}

// narrow decodes UTF-16, which Windows programs write to logs: every second byte is zero.
func narrow(text string) string {
	if len(text) < 4 || strings.Count(text, "\x00") < len(text)/3 {
		return text
	}
	units := make([]uint16, 0, len(text)/2)
	for i := 0; i+1 < len(text); i += 2 {
		units = append(units, uint16(text[i])|uint16(text[i+1])<<8)
	}
	decoded := string(utf16.Decode(units))
	if strings.Count(decoded, "\x00") > len(decoded)/3 { // the other byte order, or no text
		return strings.ReplaceAll(text, "\x00", "")
	}
	return strings.TrimPrefix(decoded, "\ufeff")
}

// line masks one line, without its line break.
func (m *Masker) line(line string, depth int) string {
	if len(line) > maxLine {
		line = strings.ToValidUTF8(line[:maxLine], "")
		if cut := strings.LastIndexAny(line, " \t"); cut > 0 {
			line = line[:cut]
		}
		line += " ..."
	}
	if masked, isJSON := m.json(line, depth); isJSON {
		return masked
	}
	if depth < maxDepth {
		line = m.quoted(line, depth)
	}
	masked := m.patterns(line, depth)
	if plain := unescape(line); plain != line {
		if again := m.patterns(plain, depth); again != plain {
			return again
		}
	}
	return masked
}

// quoted masks escaped text between quotation marks as a separate text.
func (m *Masker) quoted(line string, depth int) string {
	if !strings.Contains(line, `\`) {
		return line
	}
	var b strings.Builder
	done := 0
	for i := 0; i < len(line); i++ {
		if line[i] != '"' {
			continue
		}
		end := endOfQuotation(line, i+1, '"', 0)
		if end == len(line) {
			break
		}
		text := line[i : end+1]
		var decoded string
		if strings.Contains(text, `\`) && json.Unmarshal([]byte(text), &decoded) == nil {
			if masked := m.text(decoded, depth+1); masked != decoded {
				again, _ := plain(masked)
				b.WriteString(line[done:i] + string(again))
				done = end + 1
			}
		}
		i = end
	}
	return b.String() + line[done:]
}

// unescape decodes characters that JSON and HTML encoders escape unnecessarily.
func unescape(line string) string {
	if !strings.Contains(line, `\u00`) && !strings.Contains(line, "&") {
		return line
	}
	return strings.NewReplacer(`\u0026`, "&", `\u003d`, "=", `\u003D`, "=", `\u003c`, "<", `\u003C`, "<", `\u003e`, ">", `\u003E`, ">", `\u0027`, "'",
		`\u003a`, ":", `\u003A`, ":", `\u002b`, "+", `\u0040`, "@", "&amp;", "&", "&quot;", `"`, "&#34;", `"`, "&apos;", "'", "&#39;", "'").Replace(line)
}

// patterns masks secrets that names and shapes reveal in a line.
func (m *Masker) patterns(line string, depth int) string {
	var found spans
	found = append(found, urls(line)...)
	found = append(found, pairs(line)...)
	found = append(found, m.commands(line)...)
	found = append(found, m.shaped(line)...)
	if depth < maxDepth {
		found = append(found, m.encoded(line, depth)...)
	}
	return found.mask(line)
}

// span is a part of a line.
type span struct{ from, to int }

type spans []span

// mask replaces each span with the mark. Adjacent spans get one mark.
func (s spans) mask(line string) string {
	s = slices.DeleteFunc(s, func(x span) bool { return x.from >= x.to || strings.Trim(line[x.from:x.to], "*") == "" })
	if len(s) == 0 {
		return line
	}
	slices.SortFunc(s, func(a, b span) int { return a.from - b.from })
	var b strings.Builder
	done := 0
	for _, x := range s {
		if x.to <= done {
			continue
		}
		if x.from > done || done == 0 {
			b.WriteString(line[done:max(x.from, done)])
			b.WriteString(Mark)
		}
		done = x.to
	}
	b.WriteString(line[done:])
	return b.String()
}
