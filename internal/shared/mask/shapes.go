package mask

import (
	"encoding/base64"
	"net/url"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// shape is a form by which secrets are recognized, regardless of their name. Group 1, if present, is the secret.
type shape struct {
	pattern *regexp.Regexp
	// hints are texts, one of which every matching line contains: comparing is faster than matching.
	hints []string
}

func shapes() []shape {
	of := func(pattern string, hints ...string) shape { return shape{regexp.MustCompile(pattern), hints} }
	return []shape{
		of(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|$)`, "PRIVATE KEY"),
		of(`(?i)\b(?:bearer|basic|negotiate|ntlm)\s+([A-Za-z0-9._~+/=-]{8,})`, " "),
		of(`\beyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*){0,3}`, "eyJ"),
		of(`(?i)[?&](?:sig|signature|x-amz-signature|x-amz-credential|x-amz-security-token|x-goog-signature|code|se_token|sv_sig)=([^\s&"'<>\\]+)`, "?", "&"),
		of(`\b(?:AKIA|ASIA|AROA|AIDA|AGPA|ANPA)[0-9A-Z]{12,}\b`, "AKIA", "ASIA", "AROA", "AIDA", "AGPA", "ANPA"),
		of(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`, "."),
		of(`\b(?:gh[pousr]_|github_pat_)[A-Za-z0-9_]{16,}`, "gh", "github_pat_"),
		of(`\bgl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|oas|sa)[-_][A-Za-z0-9_.-]{16,}`, "gl"),
		of(`\bx(?:ox[a-z]|app)-[A-Za-z0-9-]{8,}`, "xox", "xapp-"),
		of(`\bAIza[A-Za-z0-9_-]{30,}`, "AIza"),
		of(`\bya29\.[A-Za-z0-9_-]{16,}`, "ya29."),
		of(`\bnpm_[A-Za-z0-9]{16,}`, "npm_"),
		of(`\bpypi-[A-Za-z0-9_-]{16,}`, "pypi-"),
		of(`\b(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{8,}`, "_live_", "_test_"),
		of(`\bsk-(?:[a-z]+[0-9]*-)*[A-Za-z0-9_-]{20,}`, "sk-"),
		of(`\bSG\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}`, "SG."),
		of(`\bdckr_(?:pat|oat)_[A-Za-z0-9_-]{8,}`, "dckr_"),
		of(`\bhv[sbr]\.[A-Za-z0-9_-]{16,}`, "hvs.", "hvb.", "hvr."),
		of(`\bhf_[A-Za-z0-9]{16,}`, "hf_"),
		of(`\bdop_v1_[a-f0-9]{16,}`, "dop_v1_"),
		of(`\bsha256~[A-Za-z0-9_-]{16,}`, "sha256~"),           // OpenShift's OAuth
		of(`[A-Za-z0-9_.~-]{3}8Q~[A-Za-z0-9_.~-]{31,}`, "8Q~"), // Entra ID
		of(`\bAGE-SECRET-KEY-1[A-Z0-9]{16,}`, "AGE-SECRET-KEY-1"),
		of(`hooks\.slack\.com/(?:services|workflows)/([A-Za-z0-9/_-]+)`, "hooks.slack.com"),
		of(`/api/webhooks/[0-9]+/([A-Za-z0-9_-]{16,})`, "/api/webhooks/"),
		of(`\$(?:1|2[abxy]?|5|6|y|apr1|argon2id?|pbkdf2[a-z0-9-]*)\$[A-Za-z0-9./+=,$-]{16,}`, "$"),
		of(`(?i)\bIDENTIFIED\s+(?:WITH\s+\S+\s+)?BY\s+(?:PASSWORD\s+)?'([^']*)`, "identified", "IDENTIFIED", "Identified"),
		of(`(?i)\blogin\s+\S+\s+password\s+(\S+)`, "password", "PASSWORD"),
		of(`(?i)\bPSCredential[^()]*\(\s*[^,()]*,\s*\(?\s*["']?([^"')]+)`, "PSCredential", "pscredential"),
		of(`(?i)\bConvertTo-SecureString\s+(?:-String\s+)?(?:"([^"]*)|'([^']*)|([^\s$(-]\S*))`, "ConvertTo-SecureString", "convertto-securestring"),
	}
}

// shaped finds text that has the shape of a secret.
func (m *Masker) shaped(line string) (found spans) {
	for _, s := range m.shapes {
		if !containsAny(line, s.hints) {
			continue
		}
		for _, at := range s.pattern.FindAllStringSubmatchIndex(line, -1) {
			from, to := at[0], at[1]
			for g := 2; g+1 < len(at); g += 2 {
				if at[g] >= 0 {
					from, to = at[g], at[g+1]
				}
			}
			if !isProse(line[from:to]) && !isReference(line[from:to]) {
				found = append(found, span{from, to})
			}
		}
	}
	return found
}

func containsAny(line string, hints []string) bool {
	for _, h := range hints {
		if strings.Contains(line, h) {
			return true
		}
	}
	return len(hints) == 0
}

// minEncoded is the minimum length of encoded text that is decoded.
const minEncoded = 16

// encoded finds text that is secret once it is decoded: base64, in UTF-8 and UTF-16, and URL escapes.
func (m *Masker) encoded(line string, depth int) (found spans) {
	for _, run := range runs(line, func(c byte) bool { return isAlphanumeric(c) || strings.IndexByte("+/=-_", c) >= 0 }) {
		text := line[run.from:run.to]
		for _, candidate := range []string{text, afterEqual(text)} {
			decoded, isText := decode(candidate)
			if isText && m.text(decoded, depth+1) != decoded {
				found = append(found, span{run.to - len(candidate), run.to})
				break
			}
		}
	}
	if !strings.Contains(line, "%") {
		return found
	}
	for _, run := range runs(line, func(c byte) bool { return c > ' ' && strings.IndexByte(`"'<>`, c) < 0 }) {
		text := line[run.from:run.to]
		decoded, err := url.PathUnescape(text)
		if err == nil && decoded != text && utf8.ValidString(decoded) && m.patterns(decoded, maxDepth) != decoded {
			// If the text can be masked without decoding, less of it is masked.
			if rest := m.patterns(text, maxDepth); rest == text {
				found = append(found, run)
			}
		}
	}
	return found
}

func afterEqual(text string) string {
	_, after, _ := strings.Cut(text, "=")
	return after
}

// runs returns the longest parts of a line that consist of certain characters.
func runs(line string, in func(byte) bool) (found spans) {
	from := -1
	for i := 0; i <= len(line); i++ {
		switch {
		case i < len(line) && in(line[i]):
			if from < 0 {
				from = i
			}
		case from >= 0:
			if i-from >= minEncoded {
				found = append(found, span{from, i})
			}
			from = -1
		}
	}
	return found
}

func isAlphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}

// decode decodes base64 that contains text.
func decode(s string) (text string, isText bool) {
	s = strings.TrimRight(s, "=")
	if len(s) < minEncoded || len(s)%4 == 1 {
		return "", false
	}
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(s, "-_") {
		encoding = base64.RawURLEncoding
	}
	b, err := encoding.DecodeString(s)
	if err != nil {
		return "", false
	}
	text = narrow(string(b))
	if !utf8.ValidString(text) {
		return "", false
	}
	for _, r := range text {
		if !unicode.IsPrint(r) && !unicode.IsSpace(r) {
			return "", false
		}
	}
	return text, true
}

// isEncodedLogin reports whether a field is auth of a registry's credentials: user and password in base64.
func isEncodedLogin(key, value string) bool {
	if !strings.EqualFold(key, "auth") && !strings.EqualFold(key, "_auth") {
		return false
	}
	decoded, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		return len(value) >= minEncoded && !strings.ContainsAny(value, " .:")
	}
	isText := !strings.ContainsFunc(string(decoded), func(r rune) bool { return r < ' ' || r > '~' })
	return len(decoded) > 0 && (isText || strings.Contains(string(decoded), ":"))
}
