package desired_test

import (
	"crypto/ed25519"
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// signingKey returns the n-th signing key.
func signingKey(n byte) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = n
	return ed25519.NewKeyFromSeed(seed)
}

func statement() desired.Statement {
	return desired.Statement{Cluster: "11111111-2222-3333-4444-555555555555", Name: "windows-services-1.0.0", Serial: 7}
}

// rewritten returns signed data with a changed signature.
func rewritten(t *testing.T, data map[string]string, change func(map[string]any)) map[string]string {
	t.Helper()
	var s map[string]any
	if err := json.Unmarshal([]byte(data["signature"]), &s); err != nil {
		t.Fatal(err)
	}
	change(s)
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	data = maps.Clone(data)
	data["signature"] = string(text)
	return data
}

func TestVerifyAcceptsOnlySignedSettings(t *testing.T) {
	plain := map[string]string{"node": `{"version":"1.0.0"}`, "services": "[]"}
	signed, err := desired.Sign(plain, statement(), signingKey(1))
	if err != nil {
		t.Fatal(err)
	}
	key := desired.PublicKey(signingKey(1))
	if got, err := desired.Verify(signed, key); err != nil || got != statement() {
		t.Fatalf("the signed data is %+v, %v", got, err)
	}
	with := func(k, v string) map[string]string { m := maps.Clone(signed); m[k] = v; return m }
	without := func(k string) map[string]string { m := maps.Clone(signed); delete(m, k); return m }
	moved := maps.Clone(signed) // the same bytes, split differently
	moved["node"], moved["services"] = "", signed["node"]+signed["services"]
	other, err := desired.Sign(plain, statement(), signingKey(2))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		data    map[string]string
		key     string
		message string
	}{
		"unsigned":                           {plain, key, "not signed"},
		"another key":                        {other, key, "signed with unknown key"},
		"another key with the expected name": {rewritten(t, other, func(s map[string]any) { s["key"] = key }), key, "does not match the signature"},
		"no key to verify with":              {signed, "", "parsing the signing key"},
		"an invalid key":                     {signed, "AAAA", "parsing the signing key"},
		"another value":                      {with("node", `{"version":"2.0.0"}`), key, "does not match the signature"},
		"one more part":                      {with("files", "[]"), key, "does not match the signature"},
		"a part less":                        {without("services"), key, "does not match the signature"},
		"the same bytes, split differently":  {moved, key, "does not match the signature"},
		"another serial":                     {rewritten(t, signed, func(s map[string]any) { s["serial"] = 8 }), key, "does not match the signature"},
		"another name":                       {rewritten(t, signed, func(s map[string]any) { s["name"] = "windows-services-2.0.0" }), key, "does not match the signature"},
		"another cluster":                    {rewritten(t, signed, func(s map[string]any) { s["cluster"] = "another" }), key, "does not match the signature"},
		"no signature":                       {rewritten(t, signed, func(s map[string]any) { s["signature"] = "" }), key, "does not match the signature"},
		"an invalid signature":               {with("signature", "["), key, "parsing key signature"},
		"more than can be published":         {with("files", strings.Repeat("x", 1<<20)), key, "at most 1048576 can be published"},
	}
	for name, test := range tests {
		got, err := desired.Verify(test.data, test.key)
		if err == nil || !strings.Contains(err.Error(), test.message) || got != (desired.Statement{}) {
			t.Errorf("%s: %+v, %v; want %q", name, got, err, test.message)
		}
	}
}

func TestSignedNodeRoundTrips(t *testing.T) {
	data, err := desired.Node{Version: "1.0.0", SigningKey: desired.PublicKey(signingKey(1))}.Data()
	if err != nil {
		t.Fatal(err)
	}
	signed, err := desired.Sign(data, statement(), signingKey(1))
	if err != nil {
		t.Fatal(err)
	}
	again, err := desired.Sign(signed, statement(), signingKey(1))
	if err != nil || !maps.Equal(again, signed) || !maps.Equal(desired.Unsigned(signed), data) {
		t.Errorf("signing twice gives (%v)\n%v, want\n%v", err, again, signed)
	}
	if n, err := desired.FromData(signed); err != nil || n.Version != "1.0.0" || n.SigningKey != desired.PublicKey(signingKey(1)) {
		t.Errorf("read as %+v, %v", n, err)
	}
}

// TestSecretCannotBeSwappedOrGuessed: the version depends on the content and a salt.
func TestSecretCannotBeSwappedOrGuessed(t *testing.T) {
	s := desired.Secrets{Version: "of before", Salt: "a", Environment: map[string]string{"HTTP_PROXY": "http://me:pw@proxy"}}
	version := func(s desired.Secrets) string {
		content, err := s.Content()
		if err != nil {
			t.Fatal(err)
		}
		read, err := desired.ReadSecrets(content)
		if err != nil || read.Environment["HTTP_PROXY"] != s.Environment["HTTP_PROXY"] || read.Version != desired.SecretsVersion(content) {
			t.Fatalf("read as %+v, %v", read, err)
		}
		return read.Version
	}
	first := version(s)
	s.Version = ""
	if version(s) != first {
		t.Error("the version affects itself")
	}
	s.Salt = "b"
	if version(s) == first {
		t.Error("the salt does not affect the version")
	}
	if _, err := desired.ReadSecrets([]byte(`{"files":"password"`)); err == nil || strings.Contains(err.Error(), "password") {
		t.Errorf("an invalid request returned %v", err)
	}
}

// FuzzVerify: nothing is verified that the key did not sign.
func FuzzVerify(f *testing.F) {
	key := desired.PublicKey(signingKey(1))
	signed, err := desired.Sign(map[string]string{"node": "{}", "services": "[]"}, statement(), signingKey(1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add("{}", "[]", signed["signature"])
	f.Add("", "{}[]", signed["signature"])
	f.Add("{}", "[]", `{"serial":9}`)
	f.Fuzz(func(t *testing.T, node, services, signature string) {
		_, err := desired.Verify(map[string]string{"node": node, "services": services, "signature": signature}, key)
		if err == nil && (node != "{}" || services != "[]") {
			t.Errorf("verified with node %q and services %q", node, services)
		}
	})
}
