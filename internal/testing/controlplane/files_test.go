package controlplane

import (
	"crypto/x509"
	"encoding/pem"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestFlagsReferToCreatedFiles compares the files that flags name with those of NewCredentials.
func TestFlagsReferToCreatedFiles(t *testing.T) {
	c := Config{Folder: "/trial", Address: "10.99.0.1", Port: 6443, EtcdPort: 2379, PodNetwork: "10.244.0.0/14", AuditPolicy: "{}"}
	credentials, err := c.NewCredentials()
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, program := range []string{Etcd, APIServer, ControllerManager, Scheduler} {
		for _, flag := range c.Flags(program) {
			name, found := strings.CutPrefix(flag[strings.Index(flag, "=")+1:], c.Folder+string(filepath.Separator))
			if !found || !slices.Contains([]string{".crt", ".key", ".conf", ".yaml"}, filepath.Ext(name)) {
				continue
			}
			if named++; len(credentials.Files[name]) == 0 {
				t.Errorf("%s has flag %s, but there is no such file", program, flag)
			}
		}
	}
	if named == 0 {
		t.Error("no flag names a file")
	}
}

// TestFrontProxyCannotAuthenticateToCluster: with a certificate of the cluster's CA, its key would be one more client.
func TestFrontProxyCannotAuthenticateToCluster(t *testing.T) {
	credentials, err := Config{Address: "127.0.0.1"}.NewCredentials()
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(credentials.Files[frontProxy+".crt"])
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{frontProxyCA + ".crt": true, "ca.crt": false} {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(credentials.Files[name])
		_, err := cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		if (err == nil) != want {
			t.Errorf("verifying it with %s: %v, want success: %v", name, err, want)
		}
	}
}
