package supportbundle

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Mask takes the place of what is secret.
const Mask = "***"

// Masker masks secrets in text that other programs wrote: those that are known, in the forms that programs write them, and what looks like one.
// A secret that is neither known nor looks like one is not masked; so archives take only files that are listed, none of which is to hold
// secrets.
type Masker struct {
	known  *strings.Replacer
	inKey  bool
	shapes []shape
}

type shape struct {
	pattern *regexp.Regexp
	by      string
}

// minSecret is how long a known secret must be: shorter ones would mask half of every log.
const minSecret = 5

// NewMasker makes a masker that knows secrets.
func NewMasker(secrets []string) *Masker {
	forms := map[string]bool{}
	for _, s := range secrets {
		for _, form := range formsOf(s) {
			if len(form) >= minSecret {
				forms[form] = true
			}
		}
	}
	var list []string
	for form := range forms {
		list = append(list, form)
	}
	// The longest first: one may be the beginning of another.
	slices.SortFunc(list, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	var pairs []string
	for _, form := range list {
		pairs = append(pairs, form, Mask)
	}
	return &Masker{known: strings.NewReplacer(pairs...), shapes: shapes()}
}

// formsOf are the ways in which programs write a secret.
func formsOf(secret string) []string {
	secret = strings.TrimSpace(secret)
	quoted, _ := json.Marshal(secret)
	forms := []string{secret, strings.Trim(string(quoted), `"`), url.QueryEscape(secret), url.PathEscape(secret),
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.URLEncoding.EncodeToString([]byte(secret))}
	if decoded, err := url.QueryUnescape(secret); err == nil {
		forms = append(forms, decoded)
	}
	return forms
}

// shapes are what secrets look like.
func shapes() []shape {
	const word = `(?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|account[_-]?key|client[_-]?key|private[_-]?key|credentials?)`
	return []shape{
		{regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`), Mask},
		{regexp.MustCompile(`(://)[^/\s@"'<>]*@`), `${1}` + Mask + `@`},
		{regexp.MustCompile(`(?i)((?:proxy-)?authorization["']?\s*[:=]\s*["']?\[?)(?:[A-Za-z]+\s+)?[^\s"',\]]+`), `${1}` + Mask},
		{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}`), `${1} ` + Mask},
		{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*)?`), Mask},
		{regexp.MustCompile(`(?i)(\\?["']?[a-z0-9_.-]*` + word + `[a-z0-9_.-]*\\?["']?\s*[:=]\s*)(?:\\?"[^"\\]*\\?"|'[^']*'|[^\s,;&}]+)`), `${1}` + Mask},
		{regexp.MustCompile(`(?i)(\\?["'](?:auth|identitytoken|registrytoken)\\?["']\s*:\s*)\\?"[^"\\]*\\?"`), `${1}` + Mask},
		{regexp.MustCompile(`(?i)(--?[a-z0-9-]*` + word + `[a-z0-9-]*\s+)(?:"[^"]*"|[^\s"-]\S*)`), `${1}` + Mask},
		{regexp.MustCompile(`(?i)([?&](?:sig|signature|x-amz-signature|x-amz-credential|x-amz-security-token|code)=)[^\s&"']+`), `${1}` + Mask},
		{regexp.MustCompile(`\b(?:AKIA|ASIA)[0-9A-Z]{16}\b`), Mask},
		{regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`), Mask},
	}
}

// maxMaskedLine bounds a line. What a program writes beyond it is left out.
const maxMaskedLine = 16 << 10

// Line masks one line, without its end. Lines of a file come in order: a private key has several, and all but its first are left out.
func (m *Masker) Line(line string) (masked string, keep bool) {
	if m.inKey {
		m.inKey = !strings.Contains(line, "-----END ")
		return "", false
	}
	line = m.known.Replace(line) // before the cut: half a secret is not known
	if len(line) > maxMaskedLine {
		line = strings.ToValidUTF8(line[:maxMaskedLine], "")
		if cut := strings.LastIndexAny(line, " \t"); cut > 0 {
			line = line[:cut]
		}
		line += " ..."
	}
	begin := strings.LastIndex(line, "-----BEGIN ")
	m.inKey = begin >= 0 && strings.Contains(line[begin:], "PRIVATE KEY") && !strings.Contains(line[begin:], "-----END ")
	for _, s := range m.shapes {
		line = s.pattern.ReplaceAllString(line, s.by)
	}
	return line, true
}

// Text masks several lines.
func (m *Masker) Text(text string) string {
	m.inKey = false
	var b strings.Builder
	for line := range strings.Lines(text) {
		if masked, keep := m.Line(strings.TrimRight(line, "\r\n")); keep {
			b.WriteString(masked + "\n")
		}
	}
	m.inKey = false
	return b.String()
}

// Tree masks the texts of a JSON value: also a text whose key, or whose name beside it as in variables of a container, says that it is secret.
func (m *Masker) Tree(value any) any { return m.tree("", value) }

func (m *Masker) tree(key string, value any) any {
	switch v := value.(type) {
	case string:
		if masked := m.Text(key + "=" + v); key != "" && masked == key+"="+Mask+"\n" {
			return Mask
		}
		return strings.TrimSuffix(m.Text(v), "\n")
	case []any:
		for i := range v {
			v[i] = m.tree(key, v[i])
		}
	case map[string]any:
		name, _ := v["name"].(string)
		for key := range v {
			if key == "value" && name != "" {
				v[key] = m.tree(name, v[key])
				continue
			}
			v[key] = m.tree(key, v[key])
		}
	}
	return value
}
