package trust

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestCertificatesAreFoundInUserInput(t *testing.T) {
	a, b := authority("a").pem(t), authority("b").pem(t)
	long := strings.Repeat("x", 100<<10)
	for name, text := range map[string]string{
		"one after the other":              a + b,
		"text around":                      "Issuer: nobody\n" + a + "\n# -- b --\nBag Attributes\n    friendlyName: b\n" + b + "the END \n",
		"no newline at the end":            a + strings.TrimSpace(b),
		"no newline in between":            strings.TrimSpace(a) + b,
		"a space in between":               strings.TrimSpace(a) + " " + b,
		"Windows line ends":                strings.ReplaceAll(a+b, "\n", "\r\n"),
		"Windows line ends, joined":        strings.ReplaceAll(strings.TrimSpace(a)+b, "\n", "\r\n"),
		"byte order marks":                 "\ufeff" + a + "\ufeff" + b,
		"indented":                         "  " + strings.ReplaceAll(a+b, "\n", "\n \t"),
		"spaces at line ends":              strings.ReplaceAll(a+b, "\n", "  \n"),
		"empty lines":                      strings.ReplaceAll(a+b, "\n", "\n\n"),
		"spaces within lines":              strings.Replace(a, body(a), strings.ReplaceAll(body(a), "A", " A\t"), 1) + b,
		"a line longer than 64 KiB before": "# " + long + "\n" + a + long + "\n" + b,
		"base64 in one line":               strings.Replace(a, body(a), strings.ReplaceAll(body(a), "\n", ""), 1) + b,
	} {
		t.Run(name, func(t *testing.T) {
			got := Collect(now(), Bundle{"bundle", text})
			if found := names(got.Certificates); !slices.Equal(slices.Sorted(slices.Values(found)), []string{"a", "b"}) {
				t.Errorf("found %v", found)
			}
			if got.Duplicates != 0 || got.Problems != nil || got.Notices != nil {
				t.Errorf("%d duplicates, problems %q, notices %q", got.Duplicates, texts(got.Problems), texts(got.Notices))
			}
		})
	}
}

// TestLongLineIsReadCompletely has a certificate whose base64 is one line of more than 64 KiB. The original silently stopped reading
// there, and removed the certificates after it from its nodes.
func TestLongLineIsReadCompletely(t *testing.T) {
	huge := authority("huge")
	huge.extra = []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 99999, 1}, Value: make([]byte, 90<<10)}}
	text := "-----BEGIN CERTIFICATE-----\n" + base64.StdEncoding.EncodeToString(huge.der(t)) + "\n-----END CERTIFICATE-----\n"
	got := Collect(now(), Bundle{"bundle", text + authority("next").pem(t)})
	if len(got.Certificates) != 2 || got.Problems != nil {
		t.Errorf("found %v, problems %q", names(got.Certificates), texts(got.Problems))
	}
}

func TestSkippedCertificatesAreReported(t *testing.T) {
	good := authority("good").pem(t)
	old := part{name: "old", from: year(-2), to: year(-1)}.pem(t)
	bad := authority("bad").pem(t)
	const begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
	without := func(what string) string { return strings.Replace(bad, what, "", 1) }
	negative := strings.Replace(string(authority("bad").der(t)), "\x02\x01\x07", "\x02\x01\x87", 1) // the serial number
	for name, test := range map[string]struct {
		text string
		want []string // parts of the problems, in order
	}{
		"expired":                    {old, []string{`line 1: certificate "CN=old" expired on 2025-08-01T12:00:00Z`}},
		"not base64":                 {strings.Replace(bad, "M", "!", 1), []string{"line 1: invalid PEM block: its content is not base64"}},
		"cut":                        {begin + "\n" + body(bad)[:64] + "\n" + end + "\n", []string{"line 1: parsing a certificate: x509"}},
		"something else in base64":   {begin + "\nAAAA\n" + end + "\n", []string{"parsing a certificate: x509"}},
		"a negative serial number":   {string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(negative)})), []string{"parsing a certificate: x509"}}, // https://github.com/docker/for-win/issues/14803
		"empty":                      {begin + "\n" + end + "\n", []string{"parsing a certificate: x509"}},
		"headers":                    {begin + "\nProc-Type: 4,ENCRYPTED\n\n" + body(bad) + "\n" + end + "\n", []string{"is not base64"}},
		"no END":                     {without(end), []string{"line 1: invalid PEM block: its END line is missing"}},
		"no BEGIN":                   {without(begin), []string{"its BEGIN line is missing"}},
		"END with four dashes":       {strings.Replace(bad, end, "-----END CERTIFICATE----", 1), []string{"line 1: invalid PEM block: its END line is damaged"}},
		"BEGIN with four dashes":     {strings.Replace(bad, begin, begin[1:], 1), []string{"line 1: invalid PEM block: its BEGIN line is damaged"}},
		"both with four dashes":      {strings.ReplaceAll(bad, "-----", "----"), []string{"its BEGIN line is damaged"}},
		"both with spaces":           {strings.NewReplacer("-----B", "----- B", "-----E", "----- E").Replace(bad), []string{"its BEGIN line is damaged"}},
		"lower case":                 {strings.NewReplacer(begin, strings.ToLower(begin), end, strings.ToLower(end)).Replace(bad), []string{"its BEGIN line is damaged"}},
		"END of another":             {strings.Replace(bad, end, "-----END PKCS7-----", 1), []string{"its END line has another label than its BEGIN line"}},
		"commented out":              {"# " + strings.ReplaceAll(strings.TrimSpace(bad), "\n", "\n# ") + "\n", []string{"its BEGIN line is damaged or has other text on it"}},
		"in one line":                {strings.ReplaceAll(bad, "\n", " ") + "\n", []string{"its BEGIN line is damaged or has other text on it"}},
		"in one line with n":         {strings.ReplaceAll(bad, "\n", `\n`) + "\n", []string{"its BEGIN line is damaged or has other text on it"}},
		"another kind":               {strings.ReplaceAll(bad, "CERTIFICATE", "PKCS7"), []string{`PEM block has type "PKCS7"; only CERTIFICATE is allowed`}},
		"OpenSSL's own kind":         {strings.ReplaceAll(bad, "CERTIFICATE", "TRUSTED CERTIFICATE"), []string{`PEM block has type "TRUSTED CERTIFICATE"`}},
		"a key":                      {keyPEM(t), []string{"line 1: private key found"}},
		"a key of another kind":      {strings.ReplaceAll(keyPEM(t), "PRIVATE", "RSA PRIVATE"), []string{"private key found"}},
		"a key without END":          {strings.Replace(keyPEM(t), "-----END PRIVATE KEY-----", "", 1), []string{"private key found"}},
		"a key without BEGIN":        {strings.Replace(keyPEM(t), "-----BEGIN PRIVATE KEY-----", "", 1), []string{"private key found"}},
		"a key in one line":          {strings.ReplaceAll(keyPEM(t), "\n", " ") + "\n", []string{"private key found"}},
		"a key with strange dashes":  {strings.NewReplacer("-----B", "---- B", "-----E", "---- E").Replace(keyPEM(t)), []string{"private key found"}},
		"a key that ends as another": {begin + "\n" + body(keyPEM(t)) + "\n-----END PRIVATE KEY-----\n", []string{"private key found"}},
		"a key that begins as one":   {"-----BEGIN PRIVATE KEY-----\n" + body(keyPEM(t)) + "\n" + end + "\n", []string{"private key found"}},
		"joined with a damaged END":  {strings.Replace(strings.TrimSpace(bad), end, "-----END CERTIFICATE----", 1) + bad, []string{"its END line is missing", "its BEGIN line is damaged or has other text on it"}},
		"several":                    {old + keyPEM(t) + without(end) + old, []string{"line 1: certificate", "private key found", "END line is missing", `"CN=old" expired`}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Collect(now(), Bundle{"ConfigMap ns/ca, key ca.crt", test.text + good})
			if found := names(got.Certificates); !slices.Equal(found, []string{"good"}) {
				t.Errorf("found %v", found)
			}
			problems := texts(got.Problems)
			if len(problems) != len(test.want) {
				t.Fatalf("%d problems, want %d: %q", len(problems), len(test.want), problems)
			}
			for i, p := range problems {
				if !strings.HasPrefix(p, "ConfigMap ns/ca, key ca.crt, line ") || !strings.Contains(p, test.want[i]) {
					t.Errorf("%q is not about %q", p, test.want[i])
				}
			}
			all := Encode(got.Certificates) + strings.Join(problems, "\n")
			if strings.Contains(strings.ToUpper(all), strings.ToUpper(body(keyPEM(t))[:20])) {
				t.Errorf("a private key is kept: %s", all)
			}
		})
	}
}

func TestLinesAreThoseOfTheBundle(t *testing.T) {
	old := part{name: "old", from: year(-2), to: year(-1)}.pem(t)
	got := Collect(now(), Bundle{"one", "# first\r\n\r\n" + strings.ReplaceAll(old, "\n", "\r\n")}, Bundle{"two", old + "# x\n-----BEGIN CERTIFICATE-----\n"})
	after := strings.Count(old, "\n") + 2
	var places []string
	for _, p := range got.Problems {
		places = append(places, fmt.Sprintf("%s %d", p.Bundle, p.Line))
	}
	if want := []string{"one 3", "two 1", fmt.Sprintf("two %d", after)}; !slices.Equal(places, want) {
		t.Errorf("problems at %v, want %v", places, want)
	}
}

func TestTextWithoutCertificateIsProblem(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "\r\n \n": 0, "# no authorities\n": 0,
		"MIIB": 1, string(authority("der").der(t)): 1, "# x\nhello": 1,
	} {
		got := Collect(now(), Bundle{"bundle", text})
		if len(got.Problems) != want || got.Certificates != nil || got.Duplicates != 0 {
			t.Errorf("%.20q: %d problems %q", text, len(got.Problems), texts(got.Problems))
		}
	}
	if got := Collect(now()); got.Certificates != nil || got.Problems != nil || Encode(got.Certificates) != "" {
		t.Errorf("an empty input returned %v", got)
	}
}

func TestOrderAndDuplicatesDoNotMatter(t *testing.T) {
	a, b, c := authority("a").pem(t), authority("b").pem(t), authority("c").pem(t)
	one := Collect(now(), Bundle{"1", a + b}, Bundle{"2", c})
	two := Collect(now(), Bundle{"2", c + c + b}, Bundle{"1", strings.ReplaceAll(b+a, "\n", "\r\n")}, Bundle{"3", ""})
	if one.Duplicates != 0 || two.Duplicates != 2 {
		t.Errorf("%d and %d duplicates", one.Duplicates, two.Duplicates)
	}
	if diff := cmp.Diff(one.Certificates, two.Certificates); diff != "" {
		t.Error(diff)
	}
	if !slices.IsSortedFunc(one.Certificates, func(a, b Certificate) int { return strings.Compare(a.SHA256, b.SHA256) }) {
		t.Errorf("not sorted: %v", one.Certificates)
	}
}

func TestValidityBoundaries(t *testing.T) {
	p := part{name: "p", from: now(), to: year(1)}
	for name, test := range map[string]struct {
		at                time.Time
		problems, notices string
	}{
		"before": {p.from.Add(-time.Second), "", `bundle, line 1: certificate "CN=p" is not valid before 2026-08-01T12:00:00Z`},
		"first":  {p.from, "", ""},
		"last":   {p.to, "", ""},
		"after":  {p.to.Add(time.Second), `bundle, line 1: certificate "CN=p" expired on 2027-08-01T12:00:00Z and is not trusted; replace or remove it`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := Collect(test.at, Bundle{"bundle", p.pem(t)})
			if p, n := strings.Join(texts(got.Problems), ""), strings.Join(texts(got.Notices), ""); p != test.problems || n != test.notices {
				t.Errorf("problems %q, notices %q", p, n)
			}
			if taken := len(got.Certificates) == 1; taken != (test.problems == "") {
				t.Errorf("accepted: %v", taken)
			}
		})
	}
}

// TestSelfSignedServerCertificateIsTrusted: users add the self-signed certificate of a registry to the bundle.
func TestSelfSignedServerCertificateIsTrusted(t *testing.T) {
	server := part{name: "registry.example.com", from: year(-1), to: year(1), server: true}
	got := Collect(now(), Bundle{"bundle", server.pem(t)})
	if len(got.Certificates) != 1 || got.Problems != nil || got.Notices != nil {
		t.Fatalf("%v %q %q", names(got.Certificates), texts(got.Problems), texts(got.Notices))
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(Encode(got.Certificates)))
	leaf, err := x509.ParseCertificate(server.der(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: server.name, CurrentTime: now()}); err != nil {
		t.Error(err)
	}
}

func TestCertificateWithoutIssuerHasNotice(t *testing.T) {
	root, middle := authority("root").pem(t), part{name: "middle", issuer: "root", from: year(-1), to: year(1)}.pem(t)
	leaf := part{name: "leaf", issuer: "middle", from: year(-1), to: year(1), server: true}.pem(t)
	for name, test := range map[string]struct {
		text string
		want string
	}{
		"whole chain":  {leaf + middle + root, ""},
		"without root": {leaf + middle, `certificate "CN=middle" is not self-signed; Windows trusts it only if it trusts its issuer "CN=root"`},
		"leaf alone":   {"\n" + leaf, `bundle, line 2: certificate "CN=leaf" is not self-signed; Windows trusts it only if it trusts its issuer "CN=middle", which is not in any bundle: add the issuer`},
	} {
		t.Run(name, func(t *testing.T) {
			got := Collect(now(), Bundle{"bundle", test.text})
			notices := strings.Join(texts(got.Notices), "\n")
			if got.Problems != nil || len(got.Certificates) != strings.Count(test.text, "BEGIN") {
				t.Errorf("%v %q", names(got.Certificates), texts(got.Problems))
			}
			if (notices == "") != (test.want == "") || !strings.Contains(notices, test.want) || len(got.Notices) > 1 {
				t.Errorf("notices %q", notices)
			}
		})
	}
}

// TestNamesAreFitForMetricsAndMessages has a name of a legacy string type without a defined encoding.
func TestNamesAreFitForMetricsAndMessages(t *testing.T) {
	strange := asn1.RawValue{Tag: asn1.TagT61String, Bytes: []byte("\xe4\n" + strings.Repeat("x", 5000))}
	subject, err := asn1.Marshal([]pkix.RelativeDistinguishedNameSET{{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: strange}}})
	if err != nil {
		t.Fatal(err)
	}
	template, err := x509.ParseCertificate(authority("base").der(t))
	if err != nil {
		t.Fatal(err)
	}
	template.RawSubject = subject
	der, err := x509.CreateCertificate(nil, template, template, template.PublicKey, key("base"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	got := Collect(year(2), Bundle{"bundle", text})
	if len(got.Problems) != 1 || len(got.Problems[0].Message) > 600 || strings.Contains(got.Problems[0].Message, "\n") {
		t.Errorf("%q", texts(got.Problems))
	}
	read, err := Read(text)
	if err != nil || len(read) != 1 || !utf8.ValidString(read[0].Subject) || len(read[0].Subject) < 5000 {
		t.Errorf("%.100s %v", texts(got.Problems), err)
	}
}
