package apiclient

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/identity"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/httpclient"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// requestTimeout limits a request to the API server; watchTimeout ends a watch, which is then restarted.
const (
	requestTimeout = 15 * time.Second
	watchTimeout   = 5 * time.Minute
)

// Credentials are WICD's certificate or the bootstrap token.
type Credentials struct {
	token       string
	certificate *tls.Certificate
}

// Client is a client of the API server with one identity. It supports only nodes, certificate requests, events, Services and published settings,
// which keeps WICD small.
type Client struct {
	Core, certificates, events, Discovery rest.Interface
	transport                             *http.Transport
}

// newClient returns a client, which connects with its first request. clock, if not nil, receives the time of answers.
func newClient(h hostapi.Host, b wicdapi.Bootstrap, c Credentials, clock *Clock) (*Client, error) {
	server := identity.Server{
		Address: b.Server, CA: []byte(b.CA), Dial: h.Dial, Pings: http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}
	transport, err := server.Transport(c.certificate)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, certificatesv1.AddToScheme, eventsv1.AddToScheme, discoveryv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	config := rest.Config{Host: b.Server, BearerToken: c.token, QPS: -1, UserAgent: "wicd", WarningHandler: rest.NoWarnings{}}
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	if clock != nil {
		config.Wrap(func(t http.RoundTripper) http.RoundTripper { return timed{t, clock} })
	}
	authenticated, err := rest.HTTPWrappersForConfig(&config, transport)
	if err != nil {
		return nil, err
	}
	a := &Client{transport: transport}
	for _, group := range []struct {
		client  *rest.Interface
		path    string
		version schema.GroupVersion
	}{
		{&a.Core, "/api", corev1.SchemeGroupVersion},
		{&a.certificates, "/apis", certificatesv1.SchemeGroupVersion},
		{&a.events, "/apis", eventsv1.SchemeGroupVersion},
		{&a.Discovery, "/apis", discoveryv1.SchemeGroupVersion},
	} {
		c := config
		c.APIPath, c.GroupVersion = group.path, &group.version
		client, err := rest.RESTClientForConfigAndClient(&c, httpclient.New(authenticated, 0))
		if err != nil {
			return nil, fmt.Errorf("creating a client for %s: %w", b.Server, err)
		}
		*group.client = client
	}
	return a, nil
}

// close closes idle connections, so that the next identity does not use one of them.
func (a *Client) close() { a.transport.CloseIdleConnections() }

// ListNode returns the node with that name, nil when there is none, and the resource version from which to watch it.
func (a *Client) ListNode(ctx context.Context, name string) (*corev1.Node, string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var list corev1.NodeList
	err := a.Core.Get().Resource("nodes").Param("fieldSelector", "metadata.name="+name).Do(ctx).Into(&list)
	if err != nil {
		return nil, "", fmt.Errorf("reading node %s: %w", name, err)
	}
	for i := range list.Items {
		if list.Items[i].Name == name {
			return &list.Items[i], list.ResourceVersion, nil
		}
	}
	return nil, list.ResourceVersion, nil
}

// WatchNode watches a node from a resource version.
func (a *Client) WatchNode(ctx context.Context, name, version string) (watch.Interface, error) {
	w, err := watchOne(ctx, a.Core.Get().Resource("nodes"), name, version)
	if err != nil {
		return nil, fmt.Errorf("watching node %s: %w", name, err)
	}
	return w, nil
}

// WatchSettings watches the settings for nodes of a version, beginning with their current state.
func (a *Client) WatchSettings(ctx context.Context, namespace, version string) (watch.Interface, error) {
	name := ServicesConfigMap(version)
	w, err := watchOne(ctx, a.Core.Get().Namespace(namespace).Resource("configmaps"), name, "")
	if err != nil {
		return nil, fmt.Errorf("watching ConfigMap %s: %w", name, err)
	}
	return w, nil
}

// Settings reads the published settings for nodes of a version.
func (a *Client) Settings(ctx context.Context, namespace, version string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var cm corev1.ConfigMap
	name := ServicesConfigMap(version)
	if err := a.Core.Get().Namespace(namespace).Resource("configmaps").Name(name).Do(ctx).Into(&cm); err != nil {
		return nil, fmt.Errorf("reading ConfigMap %s: %w", name, err)
	}
	return cm.Data, nil
}

// Secrets reads the secrets of nodes. They must have the given version: others belong to another ConfigMap, which is still to come, or come from
// another source.
func (a *Client) Secrets(ctx context.Context, namespace, version string) (desired.Secrets, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var secret corev1.Secret
	err := a.Core.Get().Namespace(namespace).Resource("secrets").Name(api.NodeSecrets).Do(ctx).Into(&secret)
	if err != nil {
		return desired.Secrets{}, fmt.Errorf("reading Secret %s: %w", api.NodeSecrets, err)
	}
	s, err := desired.ReadSecrets(secret.Data[api.NodeSecretsKey])
	if err != nil {
		return desired.Secrets{}, fmt.Errorf("reading Secret %s, key %s: %w", api.NodeSecrets, api.NodeSecretsKey, err)
	}
	if s.Version != version {
		return desired.Secrets{}, fmt.Errorf("reading Secret %s: its version differs from that in the ConfigMap", api.NodeSecrets)
	}
	return s, nil
}

// watchOne begins a watch of one object that ends on its own after watchTimeout.
func watchOne(ctx context.Context, r *rest.Request, name, version string) (watch.Interface, error) {
	return r.Param("watch", "true").Param("fieldSelector", "metadata.name="+name).
		Param("resourceVersion", version).Param("allowWatchBookmarks", "true").
		Param("timeoutSeconds", fmt.Sprint(int(watchTimeout.Seconds()))).Watch(ctx)
}

// AnnotateNode sets annotations of the node, removes those without a value, and changes nothing else. It returns the updated node.
func (a *Client) AnnotateNode(ctx context.Context, name string, annotations map[string]string) (*corev1.Node, error) {
	values := map[string]any{}
	for key, value := range annotations {
		if values[key] = value; value == "" {
			values[key] = nil
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": values}})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var current corev1.Node
	err = a.Core.Patch(types.MergePatchType).Resource("nodes").Name(name).Body(patch).Do(ctx).Into(&current)
	if err != nil {
		return nil, fmt.Errorf("annotating node %s with %v: %w", name, annotations, err)
	}
	return &current, nil
}

// certificateSeconds is the requested lifetime of WICD's certificate.
const certificateSeconds = int32(24 * 60 * 60)

// createRequest creates the certificate request.
func (a *Client) createRequest(ctx context.Context, p identity.Pending) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	seconds := certificateSeconds
	return a.certificates.Post().Resource("certificatesigningrequests").Body(&certificatesv1.CertificateSigningRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: certificatesv1.SchemeGroupVersion.String(), Kind: "CertificateSigningRequest"},
		ObjectMeta: metav1.ObjectMeta{Name: p.Name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:           p.Request,
			SignerName:        certificatesv1.KubeAPIServerClientSignerName,
			ExpirationSeconds: &seconds,
			Usages:            []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}).Do(ctx).Error()
}

func (a *Client) getRequest(ctx context.Context, name string) (*certificatesv1.CertificateSigningRequest, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var request certificatesv1.CertificateSigningRequest
	err := a.certificates.Get().Resource("certificatesigningrequests").Name(name).Do(ctx).Into(&request)
	return &request, err
}

func (a *Client) watchRequest(ctx context.Context, name, version string) (watch.Interface, error) {
	return watchOne(ctx, a.certificates.Get().Resource("certificatesigningrequests"), name, version)
}

// ServicesConfigMap returns the name of the ConfigMap with the settings for nodes of a version.
func ServicesConfigMap(version string) string { return api.ServicesConfigMapPrefix + version }
