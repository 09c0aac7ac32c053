package overlay

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pair returns a new certificate with its key, as PEM.
func pair(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
}

func TestReadingKubeconfigs(t *testing.T) {
	both := pair(t)
	folder := t.TempDir()
	for name, content := range map[string]string{"kubelet.pem": string(both), "ca.crt": "CA", "token": "secret\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	inline := base64.StdEncoding.EncodeToString(both)
	cluster := func(more string) string {
		return "clusters:\n- name: c\n  cluster:\n    server: https://api:6443\n" + more
	}
	for name, test := range map[string]struct {
		text        string
		ca, token   string
		certificate bool
		err         string
	}{
		"of the kubelet": {text: "apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts:\n- name: x\n  context: {cluster: c, user: u}\n" +
			cluster("    certificate-authority: ca.crt\n") + "users:\n- name: u\n  user:\n    client-certificate: kubelet.pem\n    client-key: " + filepath.Join(folder, "kubelet.pem") + "\n",
			ca: "CA", certificate: true},
		"inline":        {text: cluster("    certificate-authority-data: Q0E=\n") + "users:\n- user: {client-certificate-data: " + inline + ", client-key-data: " + inline + "}\n", ca: "CA", certificate: true},
		"JSON":          {text: `{"clusters":[{"cluster":{"server":"https://api:6443"}}],"users":[{"user":{"token":"secret"}}]}`, token: "secret"},
		"token file":    {text: cluster("") + "users:\n- user: {tokenFile: token}\n", token: "secret"},
		"two users":     {text: "current-context: x\ncontexts:\n- name: x\n  context: {cluster: c, user: b}\n" + cluster("") + "users:\n- name: a\n  user: {token: wrong}\n- name: b\n  user: {token: secret}\n", token: "secret"},
		"which user":    {text: cluster("") + "users:\n- name: a\n- name: b\n", err: "has no cluster or no user"},
		"no user":       {text: cluster(""), err: "has no cluster or no user"},
		"other context": {text: "current-context: y\ncontexts:\n- name: y\n  context: {cluster: c, user: b}\n" + cluster("") + "users:\n- name: a\n", err: "has no cluster or no user"},
		"absent file":   {text: cluster("    certificate-authority: none.crt\n") + "users:\n- user: {}\n", err: "none.crt"},
		"no pair":       {text: cluster("") + "users:\n- user: {client-certificate: ca.crt, client-key: kubelet.pem}\n", err: "reading certificate and key of ca.crt"},
		"no kubeconfig": {text: "secret: [", err: "it is not a kubeconfig"},
	} {
		file := filepath.Join(folder, "kubeconfig")
		if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := readKubeconfig(file)
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: error %v, want %q and no secret in it", name, err, test.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if a.server != "https://api:6443" || string(a.ca) != test.ca || a.credentials.token != test.token || (a.credentials.certificate != nil) != test.certificate {
			t.Errorf("%s: server %q, CA %q, token %q, certificate %t", name, a.server, a.ca, a.credentials.token, a.credentials.certificate != nil)
		}
	}
}
