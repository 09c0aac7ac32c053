// Package exporter_test runs the pinned exporter with the settings that internal/shared/desired declares for windows_exporter:
// its command line, and the configuration of its server.
package exporter_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/exporter-toolkit/web"
	"gopkg.in/yaml.v3"
)

const (
	golden    = "../../internal/shared/desired/testdata/platform-none.yaml"
	webConfig = `C:\k\tls\windows-exporter-webconfig.yaml`
	serving   = `C:\var\lib\kubelet\pki\kubelet-server-current.pem`
	clientCA  = `C:\k\kubelet-ca.crt`
)

// declared returns the command line and the server's configuration of the golden file.
func declared(t *testing.T) (command, config string) {
	t.Helper()
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Node struct {
			Services []struct{ Name, Command string }
			Files    []struct{ Path, Content string }
		} `yaml:"Node"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, s := range file.Node.Services {
		if s.Name == "windows_exporter" {
			command = s.Command
		}
	}
	for _, f := range file.Node.Files {
		if f.Path == webConfig {
			config = f.Content
		}
	}
	if command == "" || config == "" {
		t.Fatalf("%s has the command %q and the configuration %q", golden, command, config)
	}
	return command, config
}

// moduleFolder returns the folder with the sources of a module, in the version that go.mod names. It downloads them if
// necessary: no test is built from them.
func moduleFolder(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.Command("go", "mod", "download", "-json", module).Output()
	if err != nil {
		t.Fatal(err)
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(out, &downloaded); err != nil || downloaded.Dir == "" {
		t.Fatalf("go mod download returned %s: %v", out, err)
	}
	return downloaded.Dir
}

// TestExporterHasConfiguredFlagsAndCollectors searches the exporter's source, because it builds for Windows only.
func TestExporterHasConfiguredFlagsAndCollectors(t *testing.T) {
	command, _ := declared(t)
	folder := moduleFolder(t, "github.com/prometheus-community/windows_exporter")
	sources := map[string]string{
		"--collectors.enabled":             folder + "/cmd/windows_exporter/main.go",
		"--collector.net.enabled":          folder + "/internal/collector/net/net.go",
		"--collector.textfile.directories": folder + "/internal/collector/textfile/textfile.go",
		"--web.config.file":                moduleFolder(t, "github.com/prometheus/exporter-toolkit") + "/web/kingpinflag/flag.go",
		"--log.level":                      moduleFolder(t, "github.com/prometheus/common") + "/promslog/flag/flag.go",
		"--log.file":                       folder + "/internal/log/flag/flag.go",
	}
	words := strings.Fields(command)
	for i, word := range words {
		if !strings.HasPrefix(word, "--") {
			continue // the program, or the value of a flag
		}
		source, err := os.ReadFile(sources[word])
		if err != nil || !strings.Contains(string(source), `"`+strings.TrimPrefix(word, "--")+`"`) {
			t.Errorf("the exporter does not have the flag %s: %v", word, err)
		}
		if word != "--collectors.enabled" {
			continue
		}
		for collector := range strings.SplitSeq(words[i+1], ",") {
			source, err := os.ReadFile(filepath.Join(folder, "internal/collector", collector, collector+".go"))
			if err != nil || !regexp.MustCompile(`\bName\s+= "`+collector+`"`).Match(source) {
				t.Errorf("the exporter does not have the collector %s: %v", collector, err)
			}
		}
	}
}

// TestExporterHasMetricsOfRulesAndDashboards searches the sources of the enabled collectors for the metrics that
// deploy/monitoring lists for this version. A test there compares the list with all rules and dashboards.
func TestExporterHasMetricsOfRulesAndDashboards(t *testing.T) {
	command, _ := declared(t)
	_, enabled, _ := strings.Cut(command, "--collectors.enabled ")
	enabled, _, _ = strings.Cut(enabled, " ")
	folder := moduleFolder(t, "github.com/prometheus-community/windows_exporter")
	made := regexp.MustCompile(`BuildFQName\(types\.Namespace, ("\w*"|Name), ("\w*"|Name)\)`)
	got := map[string]bool{}
	for collector := range strings.SplitSeq(enabled, ",") {
		source, err := os.ReadFile(filepath.Join(folder, "internal/collector", collector, collector+".go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range made.FindAllStringSubmatch(string(source), -1) {
			name := "windows"
			for _, part := range m[1:] {
				if part = strings.Trim(strings.ReplaceAll(part, "Name", collector), `"`); part != "" {
					name += "_" + part
				}
			}
			got[name] = true
		}
	}
	list, err := os.ReadFile("../../deploy/monitoring/testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	wanted := regexp.MustCompile(`(?m)^(windows_\w+) .* and later$`).FindAllStringSubmatch(string(list), -1)
	if len(wanted) < 20 {
		t.Fatalf("the list has %d metrics of this version only", len(wanted))
	}
	for _, m := range wanted {
		if !got[m[1]] {
			t.Errorf("the exporter does not have %s", m[1])
		}
	}
}

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	serial      int64
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{certificate: certificate, key: key, serial: 1}
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

// issue returns certificate and key in one file, as the kubelet stores them.
func (a *authority) issue(t *testing.T, name string, usage x509.ExtKeyUsage) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a.serial++
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}, a.certificate, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	der8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der8})...)
}

// node is a host with the files that the configuration names.
type node struct {
	serving, clientCA string
	address           string
	ended             chan error
}

// newNode starts the exporter's server with these certificates.
func newNode(t *testing.T, certificate, clients []byte) *node {
	t.Helper()
	folder := t.TempDir()
	n := &node{serving: filepath.Join(folder, "serving.pem"), clientCA: filepath.Join(folder, "ca.crt"), ended: make(chan error, 1)}
	_, config := declared(t)
	file := filepath.Join(folder, "web.yaml")
	mustWrite(t, file, []byte(strings.NewReplacer(serving, n.serving, clientCA, n.clientCA).Replace(config)))
	mustWrite(t, n.clientCA, clients)
	if certificate != nil {
		mustWrite(t, n.serving, certificate)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n.address = listener.Addr().String()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })}
	go func() {
		n.ended <- web.Serve(listener, server, &web.FlagConfig{WebConfigFile: &file}, slog.New(slog.DiscardHandler))
	}()
	t.Cleanup(func() { _ = server.Close() })
	return n
}

func mustWrite(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// scrape requests metrics on a new connection. It returns the serial number of the server's certificate.
func (n *node) scrape(t *testing.T, servers *authority, client []byte, version uint16) (int64, error) {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(servers.certificate)
	config := &tls.Config{RootCAs: pool, MaxVersion: version}
	if client != nil {
		pair, err := tls.X509KeyPair(client, client)
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Get("https://" + n.address + "/metrics")
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	return response.TLS.PeerCertificates[0].SerialNumber.Int64(), nil
}

func TestMetricsRequireClientCertificateOfCluster(t *testing.T) {
	cluster, other := newAuthority(t, "cluster"), newAuthority(t, "other")
	n := newNode(t, cluster.issue(t, "system:node:win-1", x509.ExtKeyUsageServerAuth), cluster.pem())
	prometheus := cluster.issue(t, "system:serviceaccount:openshift-monitoring:prometheus-k8s", x509.ExtKeyUsageClientAuth)
	for name, test := range map[string]struct {
		client  []byte
		version uint16
		may     bool
	}{
		"of the cluster":             {prometheus, tls.VersionTLS13, true},
		"of the cluster, TLS 1.2":    {prometheus, tls.VersionTLS12, true},
		"of the cluster, TLS 1.1":    {prometheus, tls.VersionTLS11, false},
		"none":                       {nil, tls.VersionTLS13, false},
		"of another authority":       {other.issue(t, "prometheus", x509.ExtKeyUsageClientAuth), tls.VersionTLS13, false},
		"for servers of the cluster": {cluster.issue(t, "server", x509.ExtKeyUsageServerAuth), tls.VersionTLS13, false},
	} {
		if _, err := n.scrape(t, cluster, test.client, test.version); (err == nil) != test.may {
			t.Errorf("a client with a certificate %s got %v", name, err)
		}
	}
}

// TestExporterReloadsCertificates proves that it needs no restart when the kubelet renews its certificate,
// or the cluster its authority. The original never noticed that the Secret with its one certificate for all nodes had
// changed.
func TestExporterReloadsCertificates(t *testing.T) {
	cluster, next := newAuthority(t, "cluster"), newAuthority(t, "next")
	n := newNode(t, cluster.issue(t, "system:node:win-1", x509.ExtKeyUsageServerAuth), cluster.pem())
	client := cluster.issue(t, "prometheus", x509.ExtKeyUsageClientAuth)
	before, err := n.scrape(t, cluster, client, tls.VersionTLS13)
	if err != nil {
		t.Fatal(err)
	}
	mustWrite(t, n.serving, cluster.issue(t, "system:node:win-1", x509.ExtKeyUsageServerAuth))
	if after, err := n.scrape(t, cluster, client, tls.VersionTLS13); err != nil || after == before {
		t.Errorf("serial number %d, then %d, %v", before, after, err)
	}
	mustWrite(t, n.clientCA, next.pem())
	if _, err := n.scrape(t, cluster, client, tls.VersionTLS13); err == nil {
		t.Error("the former authority is still accepted")
	}
	if _, err := n.scrape(t, cluster, next.issue(t, "prometheus", x509.ExtKeyUsageClientAuth), tls.VersionTLS13); err != nil {
		t.Errorf("the next authority is not accepted: %v", err)
	}
}

// TestExporterFailsWithoutCertificate shows why the exporter is not started before the kubelet has a certificate.
func TestExporterFailsWithoutCertificate(t *testing.T) {
	n := newNode(t, nil, newAuthority(t, "cluster").pem())
	select {
	case err := <-n.ended:
		if err == nil || !strings.Contains(err.Error(), "serving.pem") {
			t.Errorf("the exporter ended with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the exporter serves without a certificate, so it need not wait for one")
	}
}
