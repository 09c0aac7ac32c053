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

// requesters are clients that request certificates of other nodes. Their credentials are real: the certificates of a host that has joined, the token
// of a host that is joining, and tokens from the API server.
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
	// rule is the rule that the event must name, note another part of its note.
	rule, note string
}

// certificatesNotApproved creates certificate requests that violate each of the operator's rules. The API server itself rejects others
// (lab/suites/deploytest).
func certificatesNotApproved(p harness) {
	joined, other := p.addHost("joined", nil), p.addHost("other", nil)
	joining := p.holdHost("joining")
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
		{name: "KubeletRequestsWICDOfAnotherNode", as: a.kubelet, signer: wicdSigner, commonName: wicd + "other", organization: wicds,
			rule: "RequesterNotAllowed", note: "system:node:joined"},
		{name: "WICDRequestsWICDOfAnotherNode", as: a.wicd, signer: wicdSigner, commonName: wicd + "other", organization: wicds,
			rule: "RequesterNotAllowed", note: "system:wicd-node:joined"},
		{name: "TokenRequestsExistingNode", as: a.bootstrap, signer: kubeletSigner, commonName: node + "other", organization: nodes,
			rule: "CredentialNotOfInstance", note: "joining"},
		{name: "TokenRequestsSystemMasters", as: a.bootstrap, signer: kubeletSigner, commonName: node + "joining", organization: append(nodes, "system:masters"),
			rule: "OrganizationsNotExact", note: "system:masters"},
		{name: "TokenRequestsAlternativeNames", as: a.bootstrap, signer: kubeletSigner, commonName: node + "joining", organization: nodes, dns: []string{"other"},
			rule: "ExtensionsNotAllowed"},
		{name: "TokenRequestsUnknownHost", as: a.bootstrap, signer: kubeletSigner, commonName: node + "unknown", organization: nodes,
			rule: "InstanceUnknown", note: "system:node:unknown"},
		{name: "TokenRequestsLinuxNode", as: a.bootstrap, signer: kubeletSigner, commonName: node + "tux", organization: nodes,
			rule: "NodeNotWindows", note: "linux"},
		{name: "TokenRequestsForeignWindowsNode", as: a.bootstrap, signer: kubeletSigner, commonName: node + "foreign", organization: nodes,
			rule: "InstanceUnknown", note: "system:node:foreign"},
		{name: "KubeletUsesAnotherSigner", as: a.kubelet, signer: "example.com/any", commonName: node + "joined", organization: nodes,
			rule: "SignerNotAllowed", note: "example.com/any"},
		{name: "ServingCertificateForAnotherName", as: a.kubelet, signer: servingSigner, commonName: node + "joined", organization: nodes, dns: []string{"joined", "other"},
			rule: "DNSNameNotOfInstance", note: "other"},
		{name: "ServingCertificateForAnotherAddress", as: a.kubelet, signer: servingSigner, commonName: node + "joined", organization: nodes, dns: []string{"joined"}, ip: otherIP,
			rule: "AddressNotOfInstance", note: otherIP},
		{name: "TokenOfNoHost", as: a.strayBootstrap, signer: kubeletSigner, commonName: node + "joining", organization: nodes,
			rule: "CredentialNotOfInstance", note: "no joining host"},
		{name: "ServiceAccountOfAnotherNamespace", as: a.stranger, signer: kubeletSigner, commonName: node + "joining", organization: nodes,
			rule: "RequesterNotAllowed", note: "system:serviceaccount:default:stranger"},
	}
	created := p.createAll(badRequests)
	joining.release()
	p.expectAlive(joining.joiningHost) // by then the operator has checked all requests again
	for _, name := range created {
		p.expectPending(name)
	}
}

// createAll creates the requests, and returns the names of those that were created.
func (p harness) createAll(badRequests []badRequest) (created []string) {
	p.t.Helper()
	for n, bad := range badRequests {
		p.t.Run(bad.name, func(t *testing.T) {
			p := p.withT(t)
			name := fmt.Sprintf("bad-%d", n)
			must(t, bad.as.Create(t.Context(), p.request(name, bad)))
			created = append(created, name)
			p.expectEvent(name, api.EventCertificateRefused, "rule "+bad.rule+":", bad.note)
			p.expectPending(name)
		})
	}
	return created
}

func (p harness) request(name string, bad badRequest) *certificatesv1.CertificateSigningRequest {
	p.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(p.t, err)
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: bad.commonName, Organization: bad.organization}, DNSNames: bad.dns}
	if bad.ip != "" {
		template.IPAddresses = []net.IP{net.ParseIP(bad.ip)}
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	must(p.t, err)
	usage := certificatesv1.UsageClientAuth
	if bad.signer == servingSigner {
		usage = certificatesv1.UsageServerAuth
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: bad.signer, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, usage},
		},
	}
}

// requestedNode returns the name of the node in a request.
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
func (p harness) expectPending(name string) {
	p.t.Helper()
	var r certificatesv1.CertificateSigningRequest
	p.get(types.NamespacedName{Name: name}, &r)
	if len(r.Status.Conditions) > 0 || len(r.Status.Certificate) > 0 {
		p.t.Errorf("request %s by %s: got conditions %+v, want none", name, r.Spec.Username, r.Status.Conditions)
	}
}

// requesters returns all clients: joined has certificates, joining has a token.
func (p harness) requesters(joined joiningHost, joining heldHost) requesters {
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

func (p harness) withCertificate(j joiningHost, file string) client.Client {
	p.t.Helper()
	pair, err := j.Windows().Disk().Read(file)
	must(p.t, err)
	return p.client(func(c *rest.Config) { c.CertData, c.KeyData = pair, pair })
}

func (p harness) withToken(token string) client.Client {
	p.t.Helper()
	return p.client(func(c *rest.Config) { c.BearerToken = token })
}

func (p harness) client(identify func(*rest.Config)) client.Client {
	p.t.Helper()
	config := rest.AnonymousClientConfig(p.Lab.ControlPlane.RESTConfig())
	identify(config)
	c, err := client.New(config, client.Options{Scheme: p.Client.Scheme(), Mapper: p.Client.RESTMapper()})
	must(p.t, err)
	return c
}

// tokenOn returns the token that was sent to a joining host.
func (p harness) tokenOn(h heldHost) string {
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

// asOperator returns a client with the operator's permissions. No other client may write the objects that nodes apply.
func (p harness) asOperator() client.Client {
	p.t.Helper()
	return p.withToken(p.tokenOf(api.DefaultNamespace, testenv.OperatorAccount))
}

// tokenOf requests a token for a ServiceAccount.
func (p harness) tokenOf(namespace, name string) string {
	p.t.Helper()
	request := &authenticationv1.TokenRequest{}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	must(p.t, p.Client.SubResource("token").Create(p.t.Context(), account, request))
	return request.Status.Token
}
