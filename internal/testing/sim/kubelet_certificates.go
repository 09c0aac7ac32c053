package sim

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	certificatesclient "k8s.io/client-go/kubernetes/typed/certificates/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/httpclient"
)

// kubeletAPI is the kubelet's client of the API server.
type kubeletAPI struct {
	core         coreclient.CoreV1Interface
	certificates certificatesclient.CertificatesV1Interface
	coordination coordinationclient.CoordinationV1Interface
	lease        *coordinationv1.Lease
	transport    *http.Transport
}

func (a *kubeletAPI) close() { a.transport.CloseIdleConnections() }

// access has the fields of a kubeconfig that the simulated kubelet reads and writes.
type access struct {
	Clusters []struct {
		Cluster struct {
			Server string `json:"server"`
			CA     []byte `json:"certificate-authority-data"`
		} `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		User struct {
			Token string `json:"token,omitempty"`
			Pair  string `json:"client-certificate,omitempty"`
		} `json:"user"`
	} `json:"users"`
}

func newKubeletAPI(h hostapi.Host, a access, pair *tls.Certificate) (*kubeletAPI, error) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.Clusters[0].Cluster.CA)
	config := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	if pair != nil {
		config.Certificates = []tls.Certificate{*pair}
	}
	transport := &http.Transport{DialContext: h.Dial, TLSClientConfig: config, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute}
	rc := &rest.Config{Host: a.Clusters[0].Cluster.Server, QPS: -1, UserAgent: "simulated-kubelet", Timeout: 30 * time.Second}
	rc.ContentType = "application/json" // Cluster supports no other
	if pair == nil {
		rc.BearerToken = a.Users[0].User.Token
	}
	wrapped, err := rest.HTTPWrappersForConfig(rc, transport)
	if err != nil {
		return nil, err
	}
	client := httpclient.New(wrapped, rc.Timeout)
	core, err := coreclient.NewForConfigAndClient(rc, client)
	if err != nil {
		return nil, err
	}
	certificates, err := certificatesclient.NewForConfigAndClient(rc, client)
	if err != nil {
		return nil, err
	}
	coordination, err := coordinationclient.NewForConfigAndClient(rc, client)
	if err != nil {
		return nil, err
	}
	return &kubeletAPI{core: core, certificates: certificates, coordination: coordination, transport: transport}, nil
}

// certificateSpec is a certificate of the kubelet, and how to request it.
type certificateSpec struct {
	// name is the prefix of its file names.
	name, signer string
	usage        certificatesv1.KeyUsage
	template     x509.CertificateRequest
}

func (k *kubelet) pairFile(c certificateSpec) string {
	return k.flags["cert-dir"] + `\` + c.name + "-current.pem"
}

// clientCertificate authenticates the kubelet to the API server, servingCertificate authenticates it to its clients.
func (k *kubelet) clientCertificate() certificateSpec {
	return certificateSpec{name: "kubelet-client", signer: certificatesv1.KubeAPIServerClientKubeletSignerName, usage: certificatesv1.UsageClientAuth}
}

func (k *kubelet) servingCertificate() certificateSpec {
	return certificateSpec{
		name: "kubelet-server", signer: certificatesv1.KubeletServingSignerName, usage: certificatesv1.UsageServerAuth,
		template: x509.CertificateRequest{DNSNames: []string{k.node}, IPAddresses: []net.IP{net.ParseIP(k.flags["node-ip"])}},
	}
}

// connect obtains the kubelet's certificate if it has none, and creates its client.
func (k *kubelet) connect(ctx context.Context) error {
	c := k.clientCertificate()
	a, err := k.readAccess(k.flags["kubeconfig"])
	if err != nil {
		bootstrap, bootstrapErr := k.readAccess(k.flags["bootstrap-kubeconfig"])
		if bootstrapErr != nil {
			return fmt.Errorf("%w: neither kubeconfig (%w) nor bootstrap kubeconfig: %w", errPermanent, err, bootstrapErr)
		}
		a = bootstrap
		a.Users[0].User.Token, a.Users[0].User.Pair = "", k.pairFile(c)
		content, err := json.Marshal(a)
		if err != nil {
			return err
		}
		// The real kubelet also writes it before it has the certificate.
		if _, err := k.host.Disk.WriteFile(k.flags["kubeconfig"], string(content)); err != nil {
			return err
		}
	}
	pair, err := k.readPair(k.pairFile(c))
	if err != nil {
		if err := k.bootstrap(ctx, c); err != nil {
			return err
		}
		if pair, err = k.readPair(k.pairFile(c)); err != nil {
			return err
		}
	}
	k.api, err = newKubeletAPI(k.host, a, pair)
	return err
}

func (k *kubelet) readAccess(name string) (access, error) {
	var a access
	b, err := k.host.Disk.Read(name)
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(b, &a); err != nil {
		return a, err
	}
	if len(a.Clusters) == 0 || len(a.Users) == 0 {
		return a, fmt.Errorf("%s has no cluster or no user", name)
	}
	return a, nil
}

func (k *kubelet) readPair(name string) (*tls.Certificate, error) {
	b, err := k.host.Disk.Read(name)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(b, b)
	if err != nil {
		return nil, err
	}
	if pair.Leaf == nil || time.Now().After(pair.Leaf.NotAfter) {
		return nil, fmt.Errorf("the certificate in %s has expired", name)
	}
	return &pair, nil
}

// bootstrap requests the client certificate with the bootstrap token.
func (k *kubelet) bootstrap(ctx context.Context, c certificateSpec) error {
	a, err := k.readAccess(k.flags["bootstrap-kubeconfig"])
	if err != nil {
		return fmt.Errorf("%w: %w", errPermanent, err)
	}
	api, err := newKubeletAPI(k.host, a, nil)
	if err != nil {
		return err
	}
	defer api.close()
	return k.retry(ctx, func(ctx context.Context) error { return k.request(ctx, api, c) })
}

// serve requests the serving certificate.
func (k *kubelet) serve(ctx context.Context) error {
	c := k.servingCertificate()
	if _, err := k.readPair(k.pairFile(c)); err == nil {
		return nil
	}
	return k.request(ctx, k.api, c)
}

// request requests a certificate. It stores the key, so that a restarted kubelet uses the same one.
func (k *kubelet) request(ctx context.Context, api *kubeletAPI, c certificateSpec) error {
	keyFile := k.flags["cert-dir"] + `\` + c.name + ".key.tmp"
	key, err := k.keepKey(keyFile)
	if err != nil {
		return err
	}
	c.template.Subject = pkix.Name{CommonName: "system:node:" + k.node, Organization: []string{"system:nodes"}}
	der, err := x509.CreateCertificateRequest(rand.Reader, &c.template, key)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	sum := sha256.Sum256(append(public, c.signer...))
	name := "node-csr-" + hex.EncodeToString(sum[:16])
	_, err = api.certificates.CertificateSigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: c.signer, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, c.usage},
		},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("requesting a certificate: %w", err)
	}
	issued, err := awaitIssued(ctx, api, name)
	if err != nil {
		return err
	}
	keyPEM, err := k.host.Disk.Read(keyFile)
	if err != nil {
		return err
	}
	if _, err := k.host.Disk.WriteFile(k.pairFile(c), string(issued)+string(keyPEM)); err != nil {
		return err
	}
	return k.host.Disk.Remove(keyFile)
}

func (k *kubelet) keepKey(name string) (*ecdsa.PrivateKey, error) {
	if b, err := k.host.Disk.Read(name); err == nil {
		if block, _ := pem.Decode(b); block != nil {
			if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
				return key, nil
			}
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	_, err = k.host.Disk.WriteFile(name, string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})))
	return key, err
}

// awaitIssued waits for the certificate by watching the request.
func awaitIssued(ctx context.Context, api *kubeletAPI, name string) ([]byte, error) {
	for {
		csr, err := api.certificates.CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		if issued, err := issuedFor(csr); issued != nil || err != nil {
			return issued, err
		}
		seconds := int64(25) // less than the client's timeout
		w, err := api.certificates.CertificateSigningRequests().Watch(ctx, metav1.ListOptions{
			FieldSelector: "metadata.name=" + name, ResourceVersion: csr.ResourceVersion, TimeoutSeconds: &seconds,
		})
		if err != nil {
			return nil, err
		}
		issued, err := firstIssued(w)
		w.Stop()
		if issued != nil || err != nil {
			return issued, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// firstIssued returns the first certificate in a watch; nil if the watch ends first.
func firstIssued(w watch.Interface) ([]byte, error) {
	for event := range w.ResultChan() {
		csr, ok := event.Object.(*certificatesv1.CertificateSigningRequest)
		if !ok || event.Type == watch.Deleted {
			return nil, nil
		}
		if issued, err := issuedFor(csr); issued != nil || err != nil {
			return issued, err
		}
	}
	return nil, nil
}

// issuedFor returns the certificate of a request; nil if it is pending.
func issuedFor(csr *certificatesv1.CertificateSigningRequest) ([]byte, error) {
	for _, c := range csr.Status.Conditions {
		if c.Type == certificatesv1.CertificateDenied || c.Type == certificatesv1.CertificateFailed {
			return nil, fmt.Errorf("%w: request %s is %s", errPermanent, csr.Name, c.Type)
		}
	}
	if len(csr.Status.Certificate) == 0 {
		return nil, nil
	}
	return csr.Status.Certificate, nil
}
