package bugreports

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/internal/operator/csr"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/trust"
)

// certificateReports are reports about certificates that nodes trust and certificates that they request.
func certificateReports() []report {
	cloud := csr.Host{CloudNames: []string{"win-2.corp.example"}, CloudAddresses: []string{"2001:db8::7"}}
	return []report{{
		link:    "https://github.com/defenseunicorns/uds-core/issues/2167",
		input:   "some hundred authorities that just fit into a ConfigMap",
		want:    "nodes get all of them",
		outcome: publishing(1_045_000),
	}, {
		link:    "https://github.com/kubernetes/kubernetes/issues/83955",
		input:   "bundles that together are more than can be published",
		want:    "too large",
		outcome: publishing(1_900_000),
	}, {
		link:    "https://github.com/gardener/gardener/issues/10876",
		input:   "an IPv6 address that the Machine of a host has, too",
		want:    "Approve",
		outcome: asking(cloud, nil, "2001:db8::7"),
	}, {
		link:    "https://github.com/kubernetes/cloud-provider-gcp/issues/330",
		input:   "an IPv6 address that nobody but the host tells",
		want:    "Refuse AddressNotOfInstance",
		outcome: asking(csr.Host{}, nil, "2001:db8::7"),
	}, {
		link:    "https://github.com/kubernetes/cloud-provider-vsphere/issues/484",
		input:   "the name of the node as the guest spells it",
		want:    "Approve",
		outcome: asking(csr.Host{}, []string{"WIN-2"}),
	}, {
		link:    "https://github.com/kubernetes/cloud-provider-vsphere/issues/50",
		input:   "a name of the cloud in capitals",
		want:    "Approve",
		outcome: asking(cloud, []string{"Win-2.CORP.example"}),
	}, {
		link:    "https://github.com/docker/for-win/issues/14803",
		input:   "an authority with a negative serial number among others",
		want:    "1 trusted, 1 named",
		outcome: withNegativeSerial,
	}}
}

// madeAuthority returns a certificate of about 2,000 bytes as PEM.
func madeAuthority(t *testing.T, n int) []byte {
	t.Helper()
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	noise := make([]byte, 1300)
	_, _ = rand.Read(noise)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: fmt.Sprint("authority ", n)}, SubjectKeyId: noise, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().AddDate(-1, 0, 0), NotAfter: time.Now().AddDate(1, 0, 0),
	}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// publishing publishes a bundle of size bytes.
func publishing(size int) func(*testing.T) string {
	return func(t *testing.T) string {
		var bundle strings.Builder
		for n := 0; bundle.Len() < size; n++ {
			bundle.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: madeAuthority(t, n)}))
		}
		list := trust.Collect(time.Now(), trust.Bundle{Name: "ConfigMap trusted-ca", PEM: bundle.String()})
		node := desired.Node{Certificates: trust.Encode(list.Certificates), Files: []desired.File{{Content: strings.Repeat("x", 20_000)}}}
		data, err := node.Data()
		if errors.Is(err, desired.ErrTooLarge) {
			return "too large"
		}
		if err != nil {
			return err.Error()
		}
		published := 0
		for _, value := range data {
			published += len(value)
		}
		again, err := desired.FromData(data)
		if err != nil || again.Certificates != node.Certificates || published > 1<<20 {
			return fmt.Sprintf("%d bytes, of which nodes get others (%v)", published, err)
		}
		return "nodes get all of them"
	}
}

// asking requests a serving certificate for node win-2, with the given facts about the host.
func asking(host csr.Host, names []string, ips ...string) func(*testing.T) string {
	return func(t *testing.T) string {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		request := &x509.CertificateRequest{
			Subject: pkix.Name{CommonName: "system:node:win-2", Organization: []string{"system:nodes"}}, DNSNames: append(names, "win-2"),
		}
		for _, ip := range ips {
			request.IPAddresses = append(request.IPAddresses, net.ParseIP(ip))
		}
		der, err := x509.CreateCertificateRequest(rand.Reader, request, key)
		if err != nil {
			t.Fatal(err)
		}
		host.Instance, host.Node, host.Registered, host.Addresses = "ns/win-2", "win-2", true, []string{"10.0.0.12"}
		d := csr.Decide(&certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: "csr-1"},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
				SignerName: certificatesv1.KubeletServingSignerName, Usages: []certificatesv1.KeyUsage{"digital signature", "server auth"},
				Username: "system:node:win-2", Groups: []string{"system:nodes", "system:authenticated"},
			},
		}, csr.Known{Namespace: "ns", Hosts: []csr.Host{host}, Nodes: map[string]csr.Node{"win-2": {OS: "windows"}}})
		return strings.TrimSpace(string(d.Verdict) + " " + d.Rule)
	}
}

// withNegativeSerial counts the certificates that nodes trust, and those that are reported as left out.
func withNegativeSerial(t *testing.T) string {
	good := madeAuthority(t, 1)
	bad := []byte(strings.Replace(string(good), "\x02\x01\x07", "\x02\x01\x87", 1))
	var text strings.Builder
	for _, der := range [][]byte{good, bad} {
		text.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	list := trust.Collect(time.Now(), trust.Bundle{Name: "b", PEM: text.String()})
	return fmt.Sprintf("%d trusted, %d named", len(list.Certificates), len(list.Problems))
}
