package remote

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestParseKnownHosts(t *testing.T) {
	line := func(kind string) string { return FormatHostKey(newKey(t, kind).PublicKey()) }
	ed, other, ecdsa, rsa := line("ed25519"), line("ed25519"), line("ecdsa"), line("rsa")
	weak := FormatHostKey(weakKey(t).PublicKey())
	tests := map[string]struct {
		text   string
		want   map[string]string
		faulty []string
		says   string
	}{
		"nothing":               {"\n# a comment\n\n", nil, nil, ""},
		"one host":              {"10.0.0.1 " + ed, map[string]string{"10.0.0.1": ed}, nil, ""},
		"with a comment":        {"10.0.0.1 " + ed + " somebody@console\r\n", map[string]string{"10.0.0.1": ed}, nil, ""},
		"a host of many names":  {"win-1,WIN-1.Example.com.,[10.0.0.1]:22 " + ed, map[string]string{"win-1": ed, "win-1.example.com": ed, "10.0.0.1": ed}, nil, ""},
		"all that keyscan says": {"h " + rsa + "\nh " + ecdsa + "\nh " + ed, map[string]string{"h": ed}, nil, ""},
		"no Ed25519":            {"h " + rsa + "\nh " + ecdsa, map[string]string{"h": ecdsa}, nil, ""},
		"RSA alone":             {"h " + rsa, map[string]string{"h": rsa}, nil, ""},
		"the same twice":        {"h " + ed + "\nh " + ed, map[string]string{"h": ed}, nil, ""},
		"two of a type":         {"h " + ed + "\nh " + other + "\ni " + ed, map[string]string{"i": ed}, []string{"h"}, "line 2"},
		"a weak key":            {"h " + weak, nil, []string{"h"}, "1024 bits"},
		"a damaged key":         {"h ssh-ed25519 AAAA\ni " + ed, map[string]string{"i": ed}, []string{"h"}, "no public key"},
		"no key":                {"h ssh-ed25519", nil, []string{"h"}, "no key"},
		"hashed":                {"|1|c2FsdA==|aGFzaA== " + ed, nil, nil, "hashed"},
		"a pattern":             {"*.example.com,h " + ed, nil, []string{"h"}, "pattern"},
		"another port":          {"[h]:2222,i " + ed, nil, []string{"i"}, "port"},
		"revoked":               {"@revoked h " + ed, nil, []string{"h"}, "@revoked"},
		"an authority":          {"@cert-authority h " + ed + "\nh " + ed, nil, []string{"h"}, "@cert-authority"},
		"UTF-16":                {"\xff\xfeh\x00 \x00", nil, []string{"\xff\xfeh\x00"}, "no key"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			k := ParseKnownHosts(test.text)
			got := map[string]string{}
			for name, key := range k.Keys {
				got[name] = FormatHostKey(key)
			}
			faulty := slices.Sorted(maps.Keys(k.Faults))
			if !maps.Equal(got, test.want) || len(test.faulty)+len(faulty) > 0 && !slices.Equal(faulty, lower(test.faulty)) {
				t.Errorf("keys %v, faults of %q; want %v, %q", got, faulty, test.want, test.faulty)
			}
			if said := fmt.Sprint(k.Lines); (test.says == "") != (len(k.Lines) == 0) || !strings.Contains(said, test.says) {
				t.Errorf("faults are %s, want %q", said, test.says)
			}
		})
	}
}

func lower(names []string) (all []string) {
	for _, name := range names {
		all = append(all, strings.ToLower(name))
	}
	return all
}

func FuzzParseKnownHosts(f *testing.F) {
	f.Add("10.0.0.1 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGk5\n@revoked a,b x y\n|1|a|b c d")
	f.Fuzz(func(t *testing.T, text string) {
		k := ParseKnownHosts(text)
		for name, key := range k.Keys {
			if k.Faults[name] != nil {
				t.Errorf("%q has a key and a fault", name)
			}
			if _, err := ParseHostKey(FormatHostKey(key)); err != nil {
				t.Errorf("%q has a key that is refused later: %v", name, err)
			}
		}
	})
}
