package storytest

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
)

// requester is the user of a certificate request, as the API server records it.
type requester struct {
	user   string
	groups []string
	extra  map[string]certificatesv1.ExtraValue
}

func bootstrapOf(token string) requester {
	return requester{"system:serviceaccount:ns:" + api.BootstrapServiceAccount, []string{"system:serviceaccounts", "system:authenticated"},
		map[string]certificatesv1.ExtraValue{"authentication.kubernetes.io/credential-id": {"JTI=" + tokenID(token)}}}
}

func kubeletOf(node string) requester {
	return requester{user: "system:node:" + node, groups: []string{"system:nodes", "system:authenticated"}}
}

func wicdOf(node string) requester {
	return requester{user: api.WICDUserPrefix + node, groups: []string{api.WICDGroup, "system:authenticated"}}
}

// clientRequest requests the identity of a node's kubelet or WICD.
func clientRequest(prefix, node string) certificatesv1.CertificateSigningRequestSpec {
	group, signer := "system:nodes", certificatesv1.KubeAPIServerClientKubeletSignerName
	if prefix == api.WICDUserPrefix {
		group, signer = api.WICDGroup, certificatesv1.KubeAPIServerClientSignerName
	}
	day := int32((24 * time.Hour).Seconds())
	return certificatesv1.CertificateSigningRequestSpec{
		Request: requestFor(prefix+node, group, nil, nil), SignerName: signer, ExpirationSeconds: &day,
		Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
	}
}

func servingRequest(node, name string, addresses ...string) certificatesv1.CertificateSigningRequestSpec {
	return certificatesv1.CertificateSigningRequestSpec{
		Request: requestFor("system:node:"+node, "system:nodes", []string{name}, addresses), SignerName: certificatesv1.KubeletServingSignerName,
		Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
	}
}

// requestFor encodes a certificate request. If it cannot be encoded, the result is not a valid request.
func requestFor(name, group string, dnsNames, addresses []string) []byte {
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: name, Organization: []string{group}}, DNSNames: dnsNames}
	for _, text := range addresses {
		if ip := net.ParseIP(text); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		}
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	if err != nil {
		return []byte("no request")
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// createRequest creates a certificate request for a host and returns its name. The API server sets the user.
func (w *attackWorld) createRequest(host string, as requester, wanted certificatesv1.CertificateSigningRequestSpec) string {
	w.created++
	name := fmt.Sprintf("csr-%d", w.created)
	wanted.Username, wanted.Groups, wanted.Extra, wanted.UID = as.user, as.groups, as.extra, ""
	w.mu.Lock()
	w.requesters[name] = host
	w.mu.Unlock()
	w.put(&certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: wanted})
	return name
}

func (w *attackWorld) isApproved(name string) bool {
	o, found := w.cache.objects["CertificateSigningRequest"][client.ObjectKey{Name: name}]
	return found && len(o.(*certificatesv1.CertificateSigningRequest).Status.Conditions) > 0
}

// approve stores an approval as the API server does.
func (w *attackWorld) approve(request *certificatesv1.CertificateSigningRequest) error {
	w.checkApproved(request)
	w.cache.mu.Lock()
	defer w.cache.mu.Unlock()
	key := client.ObjectKeyFromObject(request)
	changed := w.cache.objects["CertificateSigningRequest"][key].DeepCopyObject().(*certificatesv1.CertificateSigningRequest)
	changed.Status = request.Status
	changed.ResourceVersion += "x"
	w.cache.objects["CertificateSigningRequest"][key] = changed
	w.cache.changes++
	return nil
}

// checkApproved checks that a host gets only its own identity, names and addresses.
func (w *attackWorld) checkApproved(request *certificatesv1.CertificateSigningRequest) {
	w.mu.Lock()
	requested := w.requesters[request.Name]
	w.mu.Unlock()
	block, _ := pem.Decode(request.Spec.Request)
	if block == nil {
		w.breach(attackIdentity, "%s gets a certificate for an invalid request", requested)
		return
	}
	cert, err := x509.ParseCertificateRequest(block.Bytes)
	w.must(err)
	node := strings.TrimPrefix(strings.TrimPrefix(cert.Subject.CommonName, "system:node:"), api.WICDUserPrefix)
	w.record("%s gets a certificate of %s for %s %v %v", requested, request.Spec.SignerName, cert.Subject.CommonName, cert.DNSNames, cert.IPAddresses)
	own, address, place := requested, "", ""
	for _, h := range w.honest {
		switch h.name {
		case requested:
			address, place = h.address, h.place()
		case node:
			w.breach(attackIdentity, "%s gets the identity of %s", requested, node)
		}
	}
	for _, l := range w.hostileHosts {
		if l.name == requested {
			own, address, place = w.identityOf(l, node, request), l.address, l.place
		}
	}
	if node != own {
		w.breach(attackIdentity, "%s gets a certificate for %s; its own name is %s", requested, cert.Subject.CommonName, own)
	}
	for _, name := range cert.DNSNames {
		if !strings.EqualFold(name, own) && !strings.EqualFold(name, place) {
			w.breach(attackIdentity, "%s, which is %s, gets a certificate for the name %s", requested, place, name)
		}
	}
	for _, ip := range cert.IPAddresses {
		if ip.String() != address {
			w.breach(attackIdentity, "%s gets a certificate for the address %s; its own is %s", requested, ip, address)
		}
	}
}

// identityOf returns the only node name that a liar may have since it was announced: the first for which it got a certificate. It is a breach if
// another host registered that Node.
func (w *attackWorld) identityOf(l *hostileHost, node string, request *certificatesv1.CertificateSigningRequest) string {
	if o, found := w.cache.objects["Node"][client.ObjectKey{Name: node}]; found {
		w.mu.Lock()
		owner := w.owners[o.(*corev1.Node).UID]
		w.mu.Unlock()
		if owner != l.name {
			w.breach(attackIdentity, "%s gets a certificate for %s, whose Node %s registered: %s", l.name, node, owner, request.Spec.SignerName)
		}
	}
	if len(l.obtained) == 0 {
		l.obtained[node] = true
		l.identity = node
	}
	for name := range l.obtained {
		return name
	}
	return ""
}
