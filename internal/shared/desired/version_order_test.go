package desired_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

func versionOrder() desired.VersionOrder {
	return desired.VersionOrder{Cluster: "11111111-2222-3333-4444-555555555555", Node: "win-1", UID: "66666666-2222-3333-4444-555555555555", Version: "1.1.0-122778d"}
}

func TestOnlySignedOrderIsVerified(t *testing.T) {
	key := desired.PublicKey(signingKey(1))
	order := versionOrder()
	signed := order.Sign(7, signingKey(1))
	for _, serial := range []int64{1, 7, math.MaxInt64} {
		if got, err := order.Verify(order.Sign(serial, signingKey(1)), key); err != nil || got != serial {
			t.Errorf("of serial %d, %d is read (%v)", serial, got, err)
		}
	}
	but := func(change func(*desired.VersionOrder)) desired.VersionOrder { o := order; change(&o); return o }
	_, signature, _ := strings.Cut(signed, ".")
	tests := map[string]struct {
		order     desired.VersionOrder
		text, key string
		message   string
	}{
		"another version":      {but(func(o *desired.VersionOrder) { o.Version = "1.0.0-122778d" }), signed, key, "not signed"},
		"another node":         {but(func(o *desired.VersionOrder) { o.Node = "win-2" }), signed, key, "not signed"},
		"another Node of it":   {but(func(o *desired.VersionOrder) { o.UID = "another" }), signed, key, "not signed"},
		"another cluster":      {but(func(o *desired.VersionOrder) { o.Cluster = "another" }), signed, key, "not signed"},
		"parts cut elsewhere":  {but(func(o *desired.VersionOrder) { o.Node, o.UID = "win-16", o.UID[1:] }), signed, key, "not signed"},
		"another key":          {order, signed, desired.PublicKey(signingKey(2)), "not signed with key"},
		"no key":               {order, signed, "", "parsing the signing key"},
		"another serial":       {order, "8." + signature, key, "not signed"},
		"no serial":            {order, "." + signature, key, "serial"},
		"serial 0":             {order, order.Sign(0, signingKey(1)), key, "serial"},
		"a serial below 0":     {order, order.Sign(-7, signingKey(1)), key, "serial"},
		"a serial with a sign": {order, "+7." + signature, key, "serial"},
		"a serial with zeros":  {order, "007." + signature, key, "serial"},
		"a serial too large":   {order, "9223372036854775808." + signature, key, "serial"},
		"nothing":              {order, "", key, "serial"},
		"no signature":         {order, "7", key, "signature"},
		"half of it":           {order, signed[:len(signed)/2], key, "signature"},
		"a line break in it":   {order, signed[:20] + "\n" + signed[20:], key, "signature"},
		"more after it":        {order, signed + "A", key, "signature"},
		"without end":          {order, signed + strings.Repeat("A", 1<<20), key, "characters"},
	}
	for name, test := range tests {
		got, err := test.order.Verify(test.text, test.key)
		if err == nil || !strings.Contains(err.Error(), test.message) || got != 0 {
			t.Errorf("%s: %d, %v; want %q", name, got, err, test.message)
		}
	}
}

// TestSignaturesAreNotInterchangeable: settings and orders are signed with the same key.
func TestSignaturesAreNotInterchangeable(t *testing.T) {
	order := versionOrder()
	order.UID = "7" // so that settings can have the same parts in the same order
	key := desired.PublicKey(signingKey(1))
	settings, err := desired.Sign(map[string]string{order.Version: "7"}, desired.Statement{Cluster: order.Cluster, Name: order.Node, Serial: 7}, signingKey(1))
	if err != nil {
		t.Fatal(err)
	}
	var s struct{ Signature []byte }
	if err := json.Unmarshal([]byte(settings["signature"]), &s); err != nil || len(s.Signature) != ed25519.SignatureSize {
		t.Fatalf("signature of %d bytes, %v", len(s.Signature), err)
	}
	if _, err := order.Verify("7."+base64.RawURLEncoding.EncodeToString(s.Signature), key); err == nil || !strings.Contains(err.Error(), "not signed") {
		t.Errorf("the signature of settings is accepted for an order: %v", err)
	}
	_, text, _ := strings.Cut(order.Sign(7, signingKey(1)), ".")
	signature, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	swapped := rewritten(t, settings, func(s map[string]any) { s["signature"] = signature })
	if _, err := desired.Verify(swapped, key); err == nil || !strings.Contains(err.Error(), "does not match the signature") {
		t.Errorf("the signature of an order is accepted for settings: %v", err)
	}
}

// FuzzVersionOrder: an order is short and has one encoding, and errors about it are short.
func FuzzVersionOrder(f *testing.F) {
	order, key := versionOrder(), desired.PublicKey(signingKey(1))
	signed := order.Sign(1796000000000, signingKey(1))
	f.Add(signed)
	f.Add(signed + ".")
	f.Add("+1." + signed)
	f.Add("1." + strings.Repeat("A", 86))
	f.Add("1." + strings.Repeat("_", 85) + "B")
	f.Fuzz(func(t *testing.T, text string) {
		serial, err := order.Verify(text, key)
		if err != nil {
			if serial != 0 || len(err.Error()) > 1000 {
				t.Errorf("serial %d, an error of %d bytes", serial, len(err.Error()))
			}
			return
		}
		if len(text) > 106 || order.Sign(serial, signingKey(1)) != text {
			t.Errorf("%q is serial %d, too", text, serial)
		}
	})
}
