//go:build linux

package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// Short names of the signers of hosts.
const (
	kubeletSigner = certificatesv1.KubeAPIServerClientKubeletSignerName
	servingSigner = certificatesv1.KubeletServingSignerName
	wicdSigner    = certificatesv1.KubeAPIServerClientSignerName
)

// requesters are clients that request certificates of other nodes. All are real: the certificates of a host that has joined, the token of a host that
// is joining, and tokens from the API server.
type requesters struct {
	kubelet, wicd, bootstrap, strayBootstrap, stranger client.Client
}

// badRequest is a request that must not be approved.
type badRequest struct {
	name         string
	as           client.Client
	signer       string
	commonName   string
	organization []string
	dns          []string
	ip           string
	// rule is the rule that the event must name, says another part of its note.
	rule, says string
}

// certificatesRefused creates certificate requests that violate each of the operator's rules. The API server refuses others itself (lab/suites/deploytest).
func certificatesRefused(p place) {
	joined, other := p.joiner("joined", nil), p.joiner("other", nil)
	joining := p.held("joining")
	p.expectAlive(joined)
	p.expectAlive(other)
	for name, os := range map[string]string{"tux": "linux", "foreign": "windows"} {
		p.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: os}}})
	}
	a := p.requesters(joined, joining)
	otherIP := p.instance(other.name).Status.NodeIP
	nodes := []string{"system:nodes"}
	wicds := []string{api.WICDGroup}
	const node, wicd = "system:node:", api.WICDUserPrefix
	badRequests := []badRequest{
		{name: "AKubeletRequestsTheDaemonOfAnotherNode", as: a.kubelet, signer: wicdSigner, commonName: wicd + "other", organization: wicds,
			rule: "RequesterNotAllowed", says: "system:node:joined"},
		{name: "ADaemonRequestsTheDaemonOfAnotherNode", as: a.wicd, signer: wicdSigner, commonName: wicd + "other", organization: wicds,
			rule: "RequesterNotAllowed", says: "system:wicd-node:joined"},
		{name: "ATokenRequestsAnExistingNode", as: a.bootstrap, signer: kubeletSigner, commonName: node + "other", organization: nodes,
			rule: "CredentialNotOfInstance", says: "joining"},
		{name: "ATokenRequestsSystemMastersToo", as: a.bootstrap, signer: kubeletSigner, commonName: node + "joining", organization: append(nodes, "system:masters"),
			rule: "OrganizationsNotExact", says: "system:masters"},
		{name: "ATokenRequestsAlternativeNames", as: a.bootstrap, signer: kubeletSigner, commonName: node + "joining", organization: nodes, dns: []string{"other"},
			rule: "ExtensionsNotAllowed"},
		{name: "ATokenRequestsAnUnknownHost", as: a.bootstrap, signer: kubeletSigner, commonName: node + "unknown", organization: nodes,
			rule: "InstanceUnknown", says: "system:node:unknown"},
		{name: "ATokenRequestsALinuxNode", as: a.bootstrap, signer: kubeletSigner, commonName: node + "tux", organization: nodes,
			rule: "NodeNotWindows", says: "linux"},
		{name: "ATokenRequestsAForeignWindowsNode", as: a.bootstrap, signer: kubeletSigner, commonName: node + "foreign", organization: nodes,
			rule: "InstanceUnknown", says: "system:node:foreign"},
		{name: "AKubeletUsesAnotherSigner", as: a.kubelet, signer: "example.com/any", commonName: node + "joined", organization: nodes,
			rule: "SignerNotAllowed", says: "example.com/any"},
		{name: "AServingCertificateForTheNameOfAnother", as: a.kubelet, signer: servingSigner, commonName: node + "joined", organization: nodes, dns: []string{"joined", "other"},
			rule: "DNSNameNotOfInstance", says: "other"},
		{name: "AServingCertificateForTheAddressOfAnother", as: a.kubelet, signer: servingSigner, commonName: node + "joined", organization: nodes, dns: []string{"joined"}, ip: otherIP,
			rule: "AddressNotOfInstance", says: otherIP},
		{name: "ATokenThatNoHostWasGiven", as: a.strayBootstrap, signer: kubeletSigner, commonName: node + "joining", organization: nodes,
			rule: "CredentialNotOfInstance", says: "no joining host"},
		{name: "AServiceAccountOfAnotherNamespace", as: a.stranger, signer: kubeletSigner, commonName: node + "joining", organization: nodes,
			rule: "RequesterNotAllowed", says: "system:serviceaccount:default:stranger"},
	}
	made := p.createAll(badRequests)
	joining.open()
	p.expectAlive(joining.joiner) // then the operator has checked all requests again
	for _, name := range made {
		p.expectPending(name)
	}
}

// createAll creates the requests, and returns the names of those that were created.
func (p place) createAll(badRequests []badRequest) (made []string) {
	p.t.Helper()
	for n, w := range badRequests {
		p.t.Run(w.name, func(t *testing.T) {
			p := p.in(t)
			name := fmt.Sprintf("bad-%d", n)
			must(t, w.as.Create(t.Context(), p.request(name, w)))
			made = append(made, name)
			p.expectEvent(name, api.EventCertificateRefused, "rule "+w.rule+":", w.says)
			p.expectPending(name)
		})
	}
	return made
}

func (p place) request(name string, w badRequest) *certificatesv1.CertificateSigningRequest {
	p.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(p.t, err)
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: w.commonName, Organization: w.organization}, DNSNames: w.dns}
	if w.ip != "" {
		template.IPAddresses = []net.IP{net.ParseIP(w.ip)}
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	must(p.t, err)
	usage := certificatesv1.UsageClientAuth
	if w.signer == servingSigner {
		usage = certificatesv1.UsageServerAuth
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: w.signer, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, usage},
		},
	}
}

// requestedNode is the name of the node in a request.
func requestedNode(r *certificatesv1.CertificateSigningRequest) string {
	block, _ := pem.Decode(r.Spec.Request)
	if block == nil {
		return ""
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return ""
	}
	return request.Subject.CommonName[strings.LastIndexByte(request.Subject.CommonName, ':')+1:]
}

// expectPending checks that a request is neither approved nor denied.
func (p place) expectPending(name string) {
	p.t.Helper()
	var r certificatesv1.CertificateSigningRequest
	p.get(types.NamespacedName{Name: name}, &r)
	if len(r.Status.Conditions) > 0 || len(r.Status.Certificate) > 0 {
		p.t.Errorf("request %s by %s was decided: %+v", name, r.Spec.Username, r.Status.Conditions)
	}
}

// requesters returns all clients: joined has certificates, joining has a token.
func (p place) requesters(joined joiner, joining held) requesters {
	p.t.Helper()
	p.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "stranger"}})
	p.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "stranger"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node-bootstrapper"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "stranger"}},
	})
	a := requesters{
		kubelet:        p.withCertificate(joined, desired.KubeletCertificates+`\kubelet-client-current.pem`),
		wicd:           p.withCertificate(joined, desired.WICDCertificates+`\wicd-client-current.pem`),
		bootstrap:      p.withToken(p.tokenOn(joining)),
		strayBootstrap: p.withToken(p.tokenOf(api.DefaultNamespace, api.BootstrapServiceAccount)),
		stranger:       p.withToken(p.tokenOf("default", "stranger")),
	}
	p.eventually("the stranger can create requests", func(ctx context.Context) string {
		probe := p.request("probe", badRequest{signer: "example.com/probe", commonName: "probe"})
		if err := a.stranger.Create(ctx, probe, client.DryRunAll); err != nil {
			return err.Error()
		}
		return ""
	})
	return a
}

func (p place) withCertificate(j joiner, file string) client.Client {
	p.t.Helper()
	pair, err := j.Windows().Disk().Read(file)
	must(p.t, err)
	return p.client(func(c *rest.Config) { c.CertData, c.KeyData = pair, pair })
}

func (p place) withToken(token string) client.Client {
	p.t.Helper()
	return p.client(func(c *rest.Config) { c.BearerToken = token })
}

func (p place) client(identify func(*rest.Config)) client.Client {
	p.t.Helper()
	config := rest.AnonymousClientConfig(p.Lab.ControlPlane.RESTConfig())
	identify(config)
	c, err := client.New(config, client.Options{Scheme: p.Client.Scheme(), Mapper: p.Client.RESTMapper()})
	must(p.t, err)
	return c
}

// tokenOn is the token that was sent to a joining host.
func (p place) tokenOn(h held) string {
	p.t.Helper()
	content, err := h.Windows().Disk().Read(desired.BootstrapKubeconfig)
	must(p.t, err)
	var kubeconfig struct {
		Users []struct {
			User struct {
				Token string `json:"token"`
			} `json:"user"`
		} `json:"users"`
	}
	if err := json.Unmarshal(content, &kubeconfig); err != nil || len(kubeconfig.Users) != 1 {
		p.t.Fatalf("%s: %v", desired.BootstrapKubeconfig, err)
	}
	return kubeconfig.Users[0].User.Token
}

// asOperator returns a client with the operator's permissions: no other client may write the objects that nodes obey.
func (p place) asOperator() client.Client {
	p.t.Helper()
	return p.withToken(p.tokenOf(api.DefaultNamespace, testenv.OperatorAccount))
}

// tokenOf requests a token for a ServiceAccount.
func (p place) tokenOf(namespace, name string) string {
	p.t.Helper()
	request := &authenticationv1.TokenRequest{}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	must(p.t, p.Client.SubResource("token").Create(p.t.Context(), account, request))
	return request.Status.Token
}
