package mask_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/windows-machine-config/wmco/internal/shared/mask"
)

// TestUnknownSecretsAreMasked masks each shape alone, in the middle of a log, in a JSON string, and twice.
func TestUnknownSecretsAreMasked(t *testing.T) {
	m := mask.New()
	in := map[string]func(string) string{
		"alone":   func(s string) string { return s },
		"between": func(s string) string { return "before\n" + s + "\nafter\n" },
		"twice":   func(s string) string { return strings.TrimSuffix(s, "\n") + "\n" + s },
		"in JSON": func(s string) string { b, _ := json.Marshal(map[string]any{"msg": s, "a": 1}); return string(b) },
		"JSON in JSON": func(s string) string {
			b, _ := json.Marshal(s)
			c, _ := json.Marshal([]string{string(b)})
			return string(c)
		},
	}
	visible := 0
	for _, s := range shapes() {
		if leaks(s.text) {
			visible++
		}
		for where, put := range in {
			if strings.Contains(s.text, "\x00") && where != "alone" {
				continue
			}
			got := m.Text(put(s.text))
			if leaks(got) {
				t.Errorf("%s, %s: %q becomes %q", s.name, where, put(s.text), got)
			}
			if !strings.Contains(got, mask.Mark) {
				t.Errorf("%s, %s: %q becomes %q, without a mark", s.name, where, put(s.text), got)
			}
		}
	}
	if all := len(shapes()); all < 96 || visible < all-5 { // secrets of encoded ones are not visible
		t.Errorf("of %d shapes, %d show their secret without a masker", all, visible)
	}
}

func TestHarmlessTextsAreKept(t *testing.T) {
	m := mask.New("", "  ", "abc")
	for _, text := range honest() {
		if got := m.Text(text); got != text {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

// TestKnownSecretsAreMaskedInTheFormsOfPrograms plants a secret in each encoding, where nothing else reveals it.
func TestKnownSecretsAreMaskedInTheFormsOfPrograms(t *testing.T) {
	const secret = `Tr0ub4dor&3 "xyz'/+`
	m := mask.New(secret)
	quoted, _ := json.Marshal(secret)
	twice, _ := json.Marshal(string(quoted))
	wide := string(utf16Of(secret))
	for name, text := range map[string]string{
		"as it is":            secret,
		"JSON":                string(quoted),
		"JSON in JSON":        string(twice),
		"Go":                  fmt.Sprintf("%q", secret),
		"query":               url.QueryEscape(secret),
		"path":                url.PathEscape(secret),
		"user":                url.UserPassword("u", secret).String(),
		"base64":              base64.StdEncoding.EncodeToString([]byte(secret)),
		"base64, URL":         base64.URLEncoding.EncodeToString([]byte(secret)),
		"base64 of more":      base64.StdEncoding.EncodeToString([]byte("xy:" + secret + "\x01")),
		"base64, one further": base64.StdEncoding.EncodeToString([]byte("xyz:" + secret + "\x01")),
		"base64, two further": base64.StdEncoding.EncodeToString([]byte("uvxyz:" + secret + "\x01")),
		"UTF-16":              wide,
		"UTF-16, base64":      base64.StdEncoding.EncodeToString([]byte(wide)),
		"hexadecimal":         fmt.Sprintf("%x", secret),
		"hexadecimal, large":  fmt.Sprintf("%X", secret),
		"HTML":                `Tr0ub4dor&amp;3 &#34;xyz&#39;/+`,
	} {
		got := m.Text("it is " + text + " here")
		if !strings.Contains(got, mask.Mark) || strings.Contains(got, text) {
			t.Errorf("%s: %q becomes %q", name, text, got)
		}
	}
}

func utf16Of(s string) (b []byte) {
	for _, unit := range utf16.Encode([]rune(s)) {
		b = append(b, byte(unit), byte(unit>>8))
	}
	return b
}

func TestJSONTreesAreMasked(t *testing.T) {
	tree := map[string]any{
		"kind": "Pod", "name": "wmco",
		"env": []any{
			map[string]any{"name": "DB_PASS", "value": "hunter2"}, map[string]any{"name": "HTTPS_PROXY", "value": "http://me:p@hunter2@proxy:3128"},
		},
		"data":        map[string]any{"token": "hunter2", "notes": "fine", ".dockerconfigjson": `{"auths":{"q":{"auth":"aHVudGVyMg=="}}}`},
		"args":        []any{"--token=hunter2", "--v=2", "--password", "hunter2", "--user=x"},
		"command":     []any{"sqlcmd", "-P", "hunter2"},
		"logins":      []any{map[string]any{"password": 770041.0}, map[string]any{"password": json.Number("770041")}},
		"annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": `{"kind":"Secret","data":{"x":"hunter2"}}`},
		"list":        map[string]any{"kind": "SecretList", "items": []any{map[string]any{"data": map[string]any{"x": "hunter2"}}}},
	}
	text, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	got, err := mask.New().JSON(text)
	if err != nil || strings.Contains(string(got), "hunter2") || strings.Contains(string(got), "aHVudGVyMg") || strings.Contains(string(got), "770041") {
		t.Errorf("got %s, %v", got, err)
	}
	for _, stays := range []string{"proxy:3128", "fine", "--v=2", "DB_PASS", "wmco", "sqlcmd", "--password", "--user=x"} {
		if !strings.Contains(string(got), stays) {
			t.Errorf("%q is not in %s", stays, got)
		}
	}
}

func TestMultilinePrivateKeyIsOmitted(t *testing.T) {
	got := mask.New().Text("before\n-----BEGIN PRIVATE KEY-----\nMIIhunter2\nhunter2\n-----END PRIVATE KEY-----\nafter\n-----BEGIN CERTIFICATE-----\nMIIC\n-----END CERTIFICATE-----\n")
	if want := "before\n-----BEGIN PRIVATE KEY-----***\nafter\n-----BEGIN CERTIFICATE-----\nMIIC\n-----END CERTIFICATE-----\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestLogContinuesAfterTruncatedKey expects lines after a private key without an end marker to stay.
func TestLogContinuesAfterTruncatedKey(t *testing.T) {
	got := mask.New().Text("-----BEGIN PRIVATE KEY-----\nMIIhunter2\nlevel=info msg=\"goes on\"\n")
	if !strings.HasSuffix(got, "level=info msg=\"goes on\"\n") || strings.Contains(got, "hunter2") {
		t.Errorf("got %q", got)
	}
}

func TestLongLinesAreTruncated(t *testing.T) {
	const longest = 16 << 10
	got := mask.New("hunter2hunter2").Text(strings.Repeat("x ", longest/2-4) + "hunter2hunter2")
	if len(got) > longest+8 || strings.Contains(got, "hunter") {
		t.Errorf("the line has %d bytes and ends with %q", len(got), got[len(got)-30:])
	}
}

// FuzzMask plants a known secret and a shaped one between texts. Neither may be visible, and the text may not grow much.
func FuzzMask(f *testing.F) {
	f.Add("password=", "hunter2hunter2", uint(3))
	f.Add("-----BEGIN PRIVATE KEY-----", "x", uint(7))
	f.Add("{\"a\":[", "]}", uint(20))
	f.Add("kind: Secret\ndata:\n", "  b: c", uint(40))
	f.Add("a\x00b\x00c\x00", "://@://@", uint(60))
	all := shapes()
	m := mask.New("Q7known-secretQ7")
	f.Fuzz(func(t *testing.T, before, after string, which uint) {
		const secret = "Q7known-secretQ7"
		if got := m.Text(before + secret + after); strings.Contains(got, secret) {
			t.Errorf("%q is in %q", secret, got)
		}
		text := before + after
		if got := m.Text(text); len(got) > 4*len(text)+16 {
			t.Errorf("%d bytes become %d", len(text), len(got))
		}
		s := all[which%uint(len(all))]
		if strings.Contains(before+after+s.text, "\x00") || strings.Contains(before+after, "hunter2") {
			return
		}
		if got := m.Text(before + "\n" + s.text + "\n" + after); strings.Contains(got, "hunter2") {
			t.Errorf("%s: %q is masked as %q", s.name, before+"\n"+s.text+"\n"+after, got)
		}
	})
}
