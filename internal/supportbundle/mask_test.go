package supportbundle

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestSecretsAreMasked(t *testing.T) {
	const hidden = "Tr0ub4dor&3 xyz"
	known := NewMasker([]string{hidden, "s3cr3tproxy"})
	for name, line := range map[string]string{
		"known":                 `level=info msg="it is Tr0ub4dor&3 xyz"`,
		"known, in base64":      `auth is VHIwdWI0ZG9yJjMgeHl6`,
		"known, in a URL":       `GET /?x=Tr0ub4dor%263+xyz`,
		"known, in JSON":        "{\"a\":\"Tr0ub4dor\\u00263 xyz\"}",
		"a proxy with password": `HTTP_PROXY=http://me:hunter2hunter2@proxy.example:3128`,
		"a bearer token":        `Authorization: Bearer hunter2hunter2`,
		"a header in Go":        `header: map[Authorization:[Basic hunter2hunter2]]`,
		"a JWT":                 `token is eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJodW50ZXIyIn0.hunter2hunter2`,
		"a password in JSON":    `{"user":"me","password":"hunter2hunter2"}`,
		"escaped JSON":          `msg="{\"password\":\"hunter2hunter2\"}"`,
		"a docker config":       `{"auths":{"quay.io":{"auth":"hunter2hunter2"}}}`,
		"a flag":                `C:\x.exe --db-password hunter2hunter2 --v=2`,
		"a flag with =":         `C:\x.exe --token=hunter2hunter2 --v=2`,
		"a variable":            `AZURE_CLIENT_SECRET=hunter2hunter2`,
		"a signed URL":          `https://x.blob/y?sv=1&sig=hunter2hunter2`,
		"a private key":         `key: -----BEGIN RSA PRIVATE KEY-----\nhunter2hunter2\n-----END RSA PRIVATE KEY-----`,
		"a bootstrap token":     `kubeadm join abcdef.hunter2hunter2ab`,
		"an access key":         `AKIAHUNTER2HUNTER2AB`,
	} {
		masked, keep := known.Line(line)
		if !keep || !strings.Contains(masked, Mask) {
			t.Errorf("%s: %q becomes %q", name, line, masked)
		}
		for _, secret := range []string{"hunter2", "HUNTER2", "Tr0ub4dor", "VHIwdWI0ZG9yJjMgeHl6"} {
			if strings.Contains(masked, secret) {
				t.Errorf("%s: %q becomes %q", name, line, masked)
			}
		}
	}
}

func TestTreesAreMasked(t *testing.T) {
	tree := map[string]any{
		"env":  []any{map[string]any{"name": "DB_PASSWORD", "value": "hunter2"}, map[string]any{"name": "HTTPS_PROXY", "value": "http://me:hunter2@proxy:3128"}},
		"name": "wmco", "data": map[string]any{"token": "hunter2", "notes": "fine"}, "args": []any{"--token=hunter2", "--v=2"},
	}
	got, err := json.Marshal(NewMasker(nil).Tree(tree))
	if err != nil || strings.Contains(string(got), "hunter2") {
		t.Errorf("got %s, %v", got, err)
	}
	for _, stays := range []string{"proxy:3128", "fine", "--v=2", "DB_PASSWORD", "wmco"} {
		if !strings.Contains(string(got), stays) {
			t.Errorf("%q is not in %s", stays, got)
		}
	}
}

func TestOrdinaryLinesStay(t *testing.T) {
	m := NewMasker([]string{"", "  ", "abc"})
	for _, line := range []string{
		`I1123 16:45:20.123456    1234 server.go:123] "Started kubelet" version="v1.36.3"`,
		`2026-11-23T16:45:20.123Z Error System[4711] Service Control Manager 7031: The kubelet service terminated unexpectedly. abc`,
		`time="2026-11-23T16:45:20Z" level=error msg="PullImage \"mcr.microsoft.com/oss/kubernetes/pause:3.10\" failed"`,
		`{"time":"2026-11-23T16:45:20Z","level":"WARN","msg":"Watching the Node failed","error":"connection refused"}`,
		`GET https://api.example:6443/api/v1/nodes?fieldSelector=metadata.name%3Dwin-1`,
	} {
		if got, keep := m.Line(line); got != line || !keep {
			t.Errorf("%q becomes %q", line, got)
		}
	}
}

func TestAPrivateKeyOfSeveralLinesIsLeftOut(t *testing.T) {
	got := NewMasker(nil).Text("before\n-----BEGIN PRIVATE KEY-----\nMIIhunter2\nhunter2\n-----END PRIVATE KEY-----\nafter\n-----BEGIN CERTIFICATE-----\nMIIC\n-----END CERTIFICATE-----\n")
	if want := "before\n***\nafter\n-----BEGIN CERTIFICATE-----\nMIIC\n-----END CERTIFICATE-----\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLongLinesAreCut(t *testing.T) {
	got, _ := NewMasker([]string{"hunter2hunter2"}).Line(strings.Repeat("x ", maxMaskedLine/2-4) + "hunter2hunter2")
	if len(got) > maxMaskedLine+8 || strings.Contains(got, "hunter") {
		t.Errorf("the line has %d bytes and ends with %q", len(got), got[len(got)-30:])
	}
}

func FuzzMask(f *testing.F) {
	f.Add("password=", "hunter2hunter2")
	f.Add("-----BEGIN PRIVATE KEY-----", "x")
	f.Fuzz(func(t *testing.T, before, after string) {
		const secret = "Q7known-secretQ7"
		got := NewMasker([]string{secret}).Text(before + secret + after)
		if strings.Contains(got, secret) {
			t.Errorf("%q is in %q", secret, got)
		}
	})
}
