package trust

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// stdlib finds certificates as Go's certificate pools do, for comparison.
func stdlib(text string) []*x509.Certificate {
	var all []*x509.Certificate
	for rest := []byte(text); len(rest) > 0; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			break
		}
		if c, err := x509.ParseCertificate(b.Bytes); err == nil && b.Type == "CERTIFICATE" && len(b.Headers) == 0 {
			all = append(all, c)
		}
	}
	return all
}

func FuzzCollect(f *testing.F) {
	a, old := authority("a").pem(f), part{name: "old", from: year(-2), to: year(-1)}.pem(f)
	f.Add(a+old, keyPEM(f))
	f.Add(strings.TrimSpace(a)+a, strings.ReplaceAll(a, "\n", "\r\n"))
	f.Add("-----BEGIN CERTIFICATE-----\n-----BEGIN A-----\n-----END -----", "\ufeff----- begin certificate --")
	f.Add(strings.ReplaceAll(a, "\n", " "), "-----END CERTIFICATE-----"+a)
	begin := regexp.MustCompile(`(?m)^[ \t]*-----BEGIN [^\n]*-----\r?$`)
	f.Fuzz(func(t *testing.T, one, two string) {
		got := Collect(now(), Bundle{"one", one}, Bundle{"two", two})
		counted := len(got.Certificates) + got.Duplicates + len(got.Problems)
		if blocks := len(begin.FindAllString(one, -1)) + len(begin.FindAllString(two, -1)); counted < blocks {
			t.Errorf("%d blocks, %d counted", blocks, counted)
		}
		text := Encode(got.Certificates)
		for _, c := range append(stdlib(one), stdlib(two)...) {
			if got.Problems == nil && !now().After(c.NotAfter) && !slices.ContainsFunc(got.Certificates, func(g Certificate) bool { return string(g.DER) == string(c.Raw) }) {
				t.Errorf("certificate %s was dropped without a problem", c.Subject)
			}
		}
		for i, c := range got.Certificates {
			if now().After(c.NotAfter) || !utf8.ValidString(c.Subject) || i > 0 && got.Certificates[i-1].SHA256 >= c.SHA256 {
				t.Errorf("certificate %+v", c)
			}
		}
		read, err := Read(text)
		if err != nil || Encode(read) != text || !cmp.Equal(read, got.Certificates) {
			t.Errorf("read again: %v", err)
		}
		again := Collect(now(), Bundle{"again", text})
		if again.Duplicates != 0 || again.Problems != nil || Encode(again.Certificates) != text {
			t.Errorf("collected again: %v", again)
		}
	})
}

func BenchmarkCollect(b *testing.B) {
	var text strings.Builder
	for i := range 150 { // as many as a Linux distribution trusts
		text.WriteString(authority(fmt.Sprint("authority ", i)).pem(b))
	}
	for b.Loop() {
		Collect(now(), Bundle{"bundle", text.String()})
	}
}
