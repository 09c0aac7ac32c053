package remote

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

// hashedName returns a name as ssh-keyscan -H prints it.
func hashedName(name string) string {
	salt := []byte("0123456789abcdefghij")
	mac := hmac.New(sha1.New, salt)
	mac.Write([]byte(name))
	return "|1|" + base64.StdEncoding.EncodeToString(salt) + "|" + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

func TestKnownHosts(t *testing.T) {
	line := func(kind string) string { return FormatHostKey(newKey(t, kind).PublicKey()) }
	ed, other, ecdsa, rsa := line("ed25519"), line("ed25519"), line("ecdsa"), line("rsa")
	weak := FormatHostKey(weakKey(t).PublicKey())
	const none = ""
	tests := map[string]struct {
		text      string
		want      map[string]string // key of each host, or "!" and a part of the error
		wantFault string            // part of the first line's error
	}{
		"nothing":                  {"\n# a comment\n\n", map[string]string{"h": none}, ""},
		"one host":                 {"10.0.0.1 " + ed, map[string]string{"10.0.0.1": ed, "10.0.0.2": none}, ""},
		"with a comment":           {"10.0.0.1 " + ed + " somebody@console\r\n", map[string]string{"10.0.0.1": ed}, ""},
		"a host of many names":     {"win-1,WIN-1.Example.com.,[10.0.0.1]:22 " + ed, map[string]string{"win-1": ed, "Win-1.example.com.": ed, "10.0.0.1": ed}, ""},
		"full output of keyscan":   {"h " + rsa + "\nh " + ecdsa + "\nh " + ed, map[string]string{"h": ed}, ""},
		"no Ed25519":               {"h " + rsa + "\nh " + ecdsa, map[string]string{"h": ecdsa}, ""},
		"RSA only":                 {"h " + rsa, map[string]string{"h": rsa}, ""},
		"duplicate":                {"h " + ed + "\nh " + ed, map[string]string{"h": ed}, ""},
		"two of a type":            {"h " + ed + "\nh " + other + "\ni " + ed, map[string]string{"h": "!two keys", "i": ed}, ""},
		"a weak key":               {"h " + weak + "\ni " + ed, map[string]string{"h": "!1024 bits", "i": ed, "j": none}, "line 1"},
		"a damaged key":            {"h ssh-ed25519 AAAA\ni " + ed, map[string]string{"h": "!line 1", "i": ed, "j": none}, "no public key"},
		"no key":                   {"h ssh-ed25519\ni " + ed, map[string]string{"h": "!line 1", "i": ed, "j": "!line 1"}, "no names"},
		"no names":                 {ed + " comment\ni " + ed, map[string]string{"h": "!line 1", "i": ed}, "no names"},
		"hashed":                   {hashedName("h") + " " + ed + "\n" + hashedName("10.0.0.1") + " " + rsa, map[string]string{"H.": ed, "10.0.0.1": rsa, "i": none}, ""},
		"hashed, damaged":          {"|1|c2FsdA==|aGFzaA== " + ed, map[string]string{"h": "!line 1"}, "damaged"},
		"hashed, another way":      {"|2|c2FsdA==|aGFzaA== " + ed, map[string]string{"h": "!line 1"}, "unknown method"},
		"hashed, a damaged key":    {hashedName("h") + " ssh-ed25519 AAAA", map[string]string{"h": "!line 1", "i": none}, "line 1"},
		"patterns":                 {"*.example.com,10.0.?.1 " + ed, map[string]string{"a.example.com": ed, "a.b.example.com": ed, "example.com": none, "10.0.3.1": ed, "10.0.31.1": none}, ""},
		"all but one":              {"10.0.0.*,!10.0.0.7 " + ed, map[string]string{"10.0.0.1": ed, "10.0.0.7": none}, ""},
		"none but one":             {"!10.0.0.7 " + ed, map[string]string{"10.0.0.7": none, "10.0.0.8": none}, ""},
		"a pattern of a wrong key": {"*.example.com ssh-ed25519 AAAA", map[string]string{"a.example.com": "!line 1", "h": none}, "line 1"},
		"another port":             {"[h]:2222,i " + ed, map[string]string{"h": "!port 2222 only", "i": ed}, ""},
		"two ports":                {"[h]:2222 " + ed + "\nh " + rsa, map[string]string{"h": rsa}, ""},
		"a pattern of ports":       {"[10.0.0.*]:2222 " + ed, map[string]string{"10.0.0.1": "!port 2222 only", "h": none}, ""},
		"no port":                  {"[h] " + ed, map[string]string{"i": "!line 1"}, "not a name with a port"},
		"revoked":                  {"@revoked h " + ed, map[string]string{"h": "!@revoked", "i": none}, "@revoked"},
		"revoked, hashed":          {"@revoked " + hashedName("h") + " " + ed, map[string]string{"h": "!@revoked", "i": none}, "@revoked"},
		"an authority":             {"@cert-authority *.a.example " + ed + "\nh.a.example " + ed, map[string]string{"h.a.example": "!@cert-authority", "i": none}, "@cert-authority"},
		"a marker without names":   {"@revoked " + ed, map[string]string{"h": "!line 1"}, "@revoked"},
		"UTF-16":                   {"\xff\xfeh\x00 \x00", map[string]string{"h": "!line 1"}, "no names"},
		"a mark of UTF-8":          {"\ufeffh " + ed, map[string]string{"h": "!line 1"}, "not a host name"},
		"too many patterns":        {strings.Repeat("*.example.com "+ed+"\n", maxPatterns+1), map[string]string{"h": "!too many"}, "too many"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			k := ParseKnownHosts(test.text)
			for host, want := range test.want {
				key, err := k.Find(host)
				got := none
				if key != nil {
					got = FormatHostKey(key)
				}
				wantFault, fails := strings.CutPrefix(want, "!")
				switch {
				case fails && (err == nil || !strings.Contains(err.Error(), wantFault)):
					t.Errorf("%s has key %q and error %v, want one containing %q", host, got, err, wantFault)
				case !fails && (err != nil || got != want):
					t.Errorf("%s has key %q and error %v, want %q", host, got, err, want)
				}
			}
			if reported := fmt.Sprint(k.Faults); (test.wantFault == "") != (len(k.Faults) == 0) || !strings.Contains(reported, test.wantFault) {
				t.Errorf("faults are %s, want %q", reported, test.wantFault)
			}
		})
	}
}

func FuzzKnownHosts(f *testing.F) {
	f.Add("10.0.0.1 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGk5\n@revoked a,b x y\n|1|a|b c d", "10.0.0.1")
	f.Add("*a*b?,!aab ssh-rsa AAAA", "aabb")
	f.Fuzz(func(t *testing.T, text, host string) {
		k := ParseKnownHosts(text)
		key, err := k.Find(host)
		if key != nil && err != nil {
			t.Errorf("%q has a key and a fault", host)
		}
		if key == nil && err == nil && k.Nameless != nil {
			t.Errorf("%q is trusted on first use, although %v", host, k.Nameless)
		}
		if key != nil {
			if _, err := ParseHostKey(FormatHostKey(key)); err != nil {
				t.Errorf("%q has a key that is refused later: %v", host, err)
			}
		}
	})
}
