//go:build linux

package lab

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/crypto/bcrypt"

	"github.com/windows-machine-config/wmco/internal/testing/controlplane"
	"github.com/windows-machine-config/wmco/lab/image"
	"github.com/windows-machine-config/wmco/lab/windows/hostspec"
)

const registryProgram = "/usr/bin/docker-registry"

// CanRunRegistries returns an error if this machine cannot run registries.
func CanRunRegistries() error { return findService(registryProgram, "docker-registry") }

// RegistryOptions are the options of a Registry.
type RegistryOptions struct {
	// Listen is an address of this machine; if empty, the lab's, which hosts can reach.
	Listen string
	// Name is the host in the names of images; MachineName if empty. It must not be an address: Wine does not check addresses in
	// certificates.
	Name string
	// Open permits everyone to pull and push, without TLS.
	Open bool
}

// A Registry is Debian's docker-registry. Its certificate is signed by the lab's CA for registries. Unless it is open, only its
// user can pull and push, with the password.
type Registry struct {
	*service
	// Host is host:port, as in the names of images. Address is the same with an address, for programs that do not know that name.
	Host, Address string
	// User and Password have all permissions.
	User, Password string

	scheme string
	client *http.Client
}

// StartRegistry starts an empty registry, which ends with the lab.
func (l *Lab) StartRegistry(ctx context.Context, o RegistryOptions) (*Registry, error) {
	r, err := l.newRegistry(o)
	if err != nil {
		return nil, fmt.Errorf("preparing a registry: %w", err)
	}
	return r, r.Start(ctx)
}

// RegistryCA returns the certificate of the CA for registries as PEM. Hosts do not trust it by default.
func (l *Lab) RegistryCA() []byte { return l.registries.PEM }

// ServingCertificate returns a certificate for a server with these DNS names, signed by the CA for registries.
func (l *Lab) ServingCertificate(names ...string) (controlplane.Pair, error) {
	return l.registries.Issue(pkix.Name{CommonName: names[0]}, names, nil)
}

func (l *Lab) newRegistry(o RegistryOptions) (*Registry, error) {
	listen := cmp.Or(o.Listen, l.Address())
	name := cmp.Or(o.Name, MachineName)
	port, err := FreePort(listen)
	if err != nil {
		return nil, err
	}
	address := net.JoinHostPort(listen, strconv.Itoa(port))
	r := &Registry{Host: net.JoinHostPort(name, strconv.Itoa(port)), Address: address, User: "puller", Password: rand.Text(), scheme: "https"}
	if r.service, err = l.newService(registryProgram); err != nil {
		return nil, err
	}
	r.command, r.answers = []string{"serve", hostspec.ServiceFolder + "/config.yml"}, r.ping
	r.client = l.registryClient(address)
	if o.Open {
		r.scheme = "http"
		return r, r.write(map[string][]byte{"config.yml": fmt.Appendf(nil, registryConfig, hostspec.ServiceFolder, address)})
	}
	pair, err := l.ServingCertificate(name)
	if err != nil {
		return nil, err
	}
	password, err := bcrypt.GenerateFromPassword([]byte(r.Password), bcrypt.MinCost)
	if err != nil {
		return nil, fmt.Errorf("hashing the password: %w", err)
	}
	return r, r.write(map[string][]byte{
		"tls.crt": pair.Cert, "tls.key": pair.Key, "htpasswd": []byte(r.User + ":" + string(password) + "\n"),
		"config.yml": fmt.Appendf(nil, registryConfig+closedRegistryConfig, hostspec.ServiceFolder, address),
	})
}

// The format is that of the distribution project's configuration.md. The access log goes to standard output.
const registryConfig = `version: 0.1
log: {level: warn, accesslog: {disabled: false}}
storage: {filesystem: {rootdirectory: %[1]s/images}}
http:
  addr: %[2]s
  secret: lab
`

const closedRegistryConfig = `  tls: {certificate: %[1]s/tls.crt, key: %[1]s/tls.key}
auth: {htpasswd: {realm: lab, path: %[1]s/htpasswd}}
`

// labAgent is the user agent of the lab's own requests.
const labAgent = "wmco-lab"

func (l *Lab) registryClient(address string) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(l.registries.PEM)
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, address)
		},
	}}
}

func (r *Registry) ping(ctx context.Context) error {
	_, err := r.do(ctx, http.MethodGet, "/v2/", "", nil, http.StatusOK)
	return err
}

// Push adds an image to a repository: by digest and, if it has one, by tag.
func (r *Registry) Push(ctx context.Context, repository, tag string, i image.Image) error {
	base := "/v2/" + repository
	for d, content := range i.Blobs {
		if err := r.pushBlob(ctx, base, d, content); err != nil {
			return fmt.Errorf("pushing to %s/%s: %w", r.Host, repository, err)
		}
	}
	path := base + "/manifests/" + cmp.Or(tag, i.Digest().String())
	if _, err := r.do(ctx, http.MethodPut, path, v1.MediaTypeImageManifest, i.Manifest, http.StatusCreated); err != nil {
		return fmt.Errorf("pushing to %s/%s: %w", r.Host, repository, err)
	}
	return nil
}

// PushIndex adds an index to a repository: each entry is the same image, for one platform.
func (r *Registry) PushIndex(ctx context.Context, repository, tag string, i image.Image, platforms ...v1.Platform) error {
	if err := r.Push(ctx, repository, "", i); err != nil {
		return err
	}
	index := v1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex}
	for _, p := range platforms {
		index.Manifests = append(index.Manifests, v1.Descriptor{
			MediaType: v1.MediaTypeImageManifest, Digest: i.Digest(), Size: int64(len(i.Manifest)), Platform: &p,
		})
	}
	content, err := json.Marshal(index)
	if err != nil {
		return err
	}
	if _, err := r.do(ctx, http.MethodPut, "/v2/"+repository+"/manifests/"+tag, v1.MediaTypeImageIndex, content, http.StatusCreated); err != nil {
		return fmt.Errorf("pushing to %s/%s: %w", r.Host, repository, err)
	}
	return nil
}

func (r *Registry) pushBlob(ctx context.Context, base string, d digest.Digest, content []byte) error {
	header, err := r.do(ctx, http.MethodPost, base+"/blobs/uploads/", "", nil, http.StatusAccepted)
	if err != nil {
		return err
	}
	to, err := url.Parse(header.Get("Location"))
	if err != nil {
		return fmt.Errorf("parsing where to upload: %w", err)
	}
	query := to.Query()
	query.Set("digest", d.String())
	_, err = r.do(ctx, http.MethodPut, to.Path+"?"+query.Encode(), "application/octet-stream", content, http.StatusCreated)
	return err
}

func (r *Registry) do(ctx context.Context, method, path, contentType string, body []byte, want int) (http.Header, error) {
	request, err := http.NewRequestWithContext(ctx, method, r.scheme+"://"+r.Host+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("creating a request: %w", err)
	}
	request.Header.Set("User-Agent", labAgent)
	request.Header.Set("Content-Type", contentType)
	request.SetBasicAuth(r.User, r.Password)
	response, err := r.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != want {
		err = errors.New(response.Status + ": " + string(text))
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return response.Header, nil
}

// A RegistryRequest is an entry of a registry's access log.
type RegistryRequest struct {
	// From is the address of the client, Agent its user agent.
	From, Agent  string
	Method, Path string
	Status       int
}

// accessLine is a line of the Combined Log Format.
var accessLine = regexp.MustCompile(`(?m)^(\S+) \S+ \S+ \[[^]]*\] "(\S+) (\S+) [^"]*" (\d+) \d+ "[^"]*" "([^"]*)"$`)

// Requests returns all requests so far except the lab's own.
func (r *Registry) Requests() ([]RegistryRequest, error) {
	text, err := os.ReadFile(r.log())
	if err != nil {
		return nil, fmt.Errorf("reading the registry's log: %w", err)
	}
	var all []RegistryRequest
	for _, m := range accessLine.FindAllStringSubmatch(string(text), -1) {
		status, err := strconv.Atoi(m[4])
		if err != nil {
			return nil, fmt.Errorf("reading the registry's log: %w", err)
		}
		if m[5] != labAgent {
			all = append(all, RegistryRequest{From: m[1], Method: m[2], Path: m[3], Status: status, Agent: m[5]})
		}
	}
	return all, nil
}
