package csr

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The values that are combined: those of a valid request of each kind, and those that an attacker would prefer.
func commonNames() []string {
	return []string{"system:node:win-1", "system:node:win-2", "system:wicd-node:win-1", "system:wicd-node:win-2", "system:node:linux-1",
		"system:windows-cloud-node-manager:win-1", "system:windows-cloud-node-manager:win-2"}
}

func requesters() map[string]string {
	return map[string]string{
		"bootstrap": bootstrapUser, "manager-2": "system:windows-cloud-node-manager:win-2", "kubelet-2": "system:node:win-2", "wicd-2": "system:wicd-node:win-2", "kubelet-linux": "system:node:linux-1", "alice": anyoneElse,
	}
}

func lifetimes() map[string]*int32 {
	return map[string]*int32{"default": nil, "a day": new(int32((24 * time.Hour).Seconds())), "ten years": new(int32((10 * 365 * 24 * time.Hour).Seconds()))}
}

// clusterStates returns the cluster states: usual, with leaving hosts, without the Node, and on Azure.
func clusterStates() map[string]Known {
	leaving, removed, azure := cluster(), cluster(), cluster()
	azure.NodeManager = true
	leaving.Hosts[0].Leaving, leaving.Hosts[1].Leaving = true, true
	delete(removed.Nodes, "win-2")
	return map[string]Known{"usual": cluster(), "leaving": leaving, "gone": removed, "Azure": azure}
}

// approvedOf returns the only combinations that are approved: requester, credential, signer, certificate content and duration. A star matches every
// value.
func approvedOf() map[string][]string {
	renewals := []string{
		"kubelet-2 * kube-apiserver-client-kubelet system:node:win-2 [system:nodes] client auth, default",
		"kubelet-2 * kube-apiserver-client-kubelet system:node:win-2 [system:nodes] client auth, a day",
		"kubelet-2 * kube-apiserver-client system:wicd-node:win-2 [system:wicd-nodes] client auth, a day",
		"wicd-2 * kube-apiserver-client system:wicd-node:win-2 [system:wicd-nodes] client auth, a day",
	}
	serving := []string{
		"kubelet-2 * kubelet-serving system:node:win-2 [system:nodes] win-2 10.0.0.12 server auth, default",
		"kubelet-2 * kubelet-serving system:node:win-2 [system:nodes] win-2 10.0.0.12 server auth, a day",
	}
	joins := []string{
		"bootstrap JTI=token-1 kube-apiserver-client-kubelet system:node:win-1 [system:nodes] client auth, default",
		"bootstrap JTI=token-1 kube-apiserver-client-kubelet system:node:win-1 [system:nodes] client auth, a day",
		"bootstrap JTI=token-1 kube-apiserver-client system:wicd-node:win-1 [system:wicd-nodes] client auth, a day",
	}
	return map[string][]string{
		"usual":   slices.Concat(joins, renewals, serving),
		"leaving": slices.Concat(renewals, serving),
		"Azure": slices.Concat(joins, renewals, serving, []string{
			"wicd-2 * kube-apiserver-client system:windows-cloud-node-manager:win-2 [system:windows-cloud-node-managers] client auth, a day",
		}),
		"gone": slices.Concat(joins, serving),
	}
}

// TestOnlyHostCombinationsAreApproved tries all combinations of the values of all fields.
func TestOnlyHostCombinationsAreApproved(t *testing.T) {
	encoded := requests(t)
	for state, known := range clusterStates() {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			approved, tried := map[string]bool{}, 0
			for content, text := range encoded {
				for _, c := range combinations() {
					request := c.request(text)
					tried++
					if Decide(request, known).Verdict == Approve {
						approved[c.describe(content)] = true
					}
				}
			}
			want := map[string]bool{}
			for _, line := range approvedOf()[state] {
				want[line] = true
			}
			for _, line := range slices.Sorted(maps.Keys(approved)) {
				if !want[line] {
					t.Errorf("approved: %s", line)
				}
			}
			for line := range want {
				if !approved[line] {
					t.Errorf("not approved: %s", line)
				}
			}
			t.Logf("%d combinations, %d kinds of them approved", tried, len(approved))
		})
	}
}

// requests returns the encoded requests: each common name with each group, each with different alternative names.
func requests(t *testing.T) map[string][]byte {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, name := range commonNames() {
		for _, groups := range [][]string{{"system:nodes"}, {"system:wicd-nodes"}, {"system:windows-cloud-node-managers"}, {"system:nodes", "system:masters"}} {
			for _, places := range [][]string{nil, {"win-2", "10.0.0.12"}, {"win-2", "10.0.0.1"}, {"kubernetes", "10.0.0.12"}} {
				template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: name, Organization: groups}}
				if places != nil {
					template.DNSNames, template.IPAddresses = places[:1], []net.IP{net.ParseIP(places[1])}
				}
				der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
				if err != nil {
					t.Fatal(err)
				}
				content := strings.Join(append([]string{name, fmt.Sprint(groups)}, places...), " ")
				all[content] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
			}
		}
	}
	return all
}

// combination is the part of a request that is outside of the encoded certificate request.
type combination struct{ requester, proof, signer, usage, lifetime string }

func combinations() (all []combination) {
	for _, requester := range slices.Sorted(maps.Keys(requesters())) {
		for _, proof := range []string{"JTI=token-1", "JTI=token-3", "X509SHA256=00"} {
			for _, signer := range []string{"kube-apiserver-client-kubelet", "kube-apiserver-client", "kubelet-serving"} {
				for _, usage := range []string{"client auth", "server auth"} {
					for _, lifetime := range slices.Sorted(maps.Keys(lifetimes())) {
						all = append(all, combination{requester, proof, signer, usage, lifetime})
					}
				}
			}
		}
	}
	return all
}

func (c combination) request(text []byte) *certificatesv1.CertificateSigningRequest {
	groups := map[string]string{"kubelet-2": "system:nodes", "kubelet-linux": "system:nodes", "wicd-2": "system:wicd-nodes",
		"manager-2": "system:windows-cloud-node-managers"}[c.requester]
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "csr-x"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: text, SignerName: "kubernetes.io/" + c.signer, ExpirationSeconds: lifetimes()[c.lifetime],
			Username: requesters()[c.requester], Groups: []string{groups, "system:authenticated"},
			Usages: []certificatesv1.KeyUsage{"digital signature", certificatesv1.KeyUsage(c.usage)},
			Extra:  map[string]certificatesv1.ExtraValue{credentialKey: {c.proof}},
		},
	}
}

// describe formats a combination like approvedOf: a certificate identifies its holder, whatever its digest.
func (c combination) describe(content string) string {
	proof := c.proof
	if c.requester != "bootstrap" {
		proof = "*"
	}
	return fmt.Sprintf("%s %s %s %s %s, %s", c.requester, proof, c.signer, content, c.usage, c.lifetime)
}
