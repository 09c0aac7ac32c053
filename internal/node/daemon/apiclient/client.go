package apiclient

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/identity"
	"github.com/windows-machine-config/wmco/internal/node/kubeapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// credential is WICD's certificate or the bootstrap token.
type credential struct {
	token       string
	certificate *tls.Certificate
}

// Client is a client of the API server with one identity.
type Client struct{ *kubeapi.Client }

const nodesPath = "/api/v1/nodes"

// newClient returns a client, which connects with its first request. clock, if not nil, receives the time of responses.
func newClient(h hostapi.Host, b wicdapi.Bootstrap, c credential, clock *Clock) (*Client, error) {
	options := kubeapi.Options{
		Server: identity.Server{
			Address: b.Server, CA: []byte(b.CA), Dial: h.Dial, Pings: http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
		},
		Certificate: c.certificate, Token: c.token, UserAgent: "wicd",
	}
	if clock != nil {
		options.Wrap = func(t http.RoundTripper) http.RoundTripper { return timed{t, clock} }
	}
	client, err := kubeapi.New(options)
	if err != nil {
		return nil, err
	}
	return &Client{client}, nil
}

// ListNode returns the node with that name, nil when there is none, and the resource version from which to watch it.
func (a *Client) ListNode(ctx context.Context, name string) (*corev1.Node, string, error) {
	var list corev1.NodeList
	if err := a.Get(ctx, nodesPath, url.Values{"fieldSelector": {"metadata.name=" + name}}, &list); err != nil {
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
func (a *Client) WatchNode(ctx context.Context, name, version string) *kubeapi.Watcher[corev1.Node] {
	return kubeapi.WatchOne[corev1.Node](ctx, a.Client, nodesPath, name, version)
}

// WatchSettings watches the settings for nodes of a version, beginning with their current state.
func (a *Client) WatchSettings(ctx context.Context, namespace, version string) *kubeapi.Watcher[corev1.ConfigMap] {
	return kubeapi.WatchOne[corev1.ConfigMap](ctx, a.Client, configMapsPath(namespace), ServicesConfigMap(version), "")
}

// Settings reads the published settings for nodes of a version.
func (a *Client) Settings(ctx context.Context, namespace, version string) (map[string]string, error) {
	var cm corev1.ConfigMap
	name := ServicesConfigMap(version)
	if err := a.Get(ctx, configMapsPath(namespace)+"/"+url.PathEscape(name), nil, &cm); err != nil {
		return nil, fmt.Errorf("reading ConfigMap %s: %w", name, err)
	}
	return cm.Data, nil
}

func configMapsPath(namespace string) string {
	return "/api/v1/namespaces/" + url.PathEscape(namespace) + "/configmaps"
}

// Secrets reads the secrets of nodes. They must have the given version: others belong to a ConfigMap that is not published yet, or come
// from another source.
func (a *Client) Secrets(ctx context.Context, namespace, version string) (desired.Secrets, error) {
	var secret corev1.Secret
	if err := a.Get(ctx, "/api/v1/namespaces/"+url.PathEscape(namespace)+"/secrets/"+api.NodeSecrets, nil, &secret); err != nil {
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

// AnnotateNode sets annotations of the node, removes those without a value, and changes nothing else. It returns the updated node.
func (a *Client) AnnotateNode(ctx context.Context, name string, annotations map[string]string) (*corev1.Node, error) {
	values := map[string]any{}
	for key, value := range annotations {
		if values[key] = value; value == "" {
			values[key] = nil
		}
	}
	var current corev1.Node
	patch := map[string]any{"metadata": map[string]any{"annotations": values}}
	if err := a.Patch(ctx, nodePath(name), kubeapi.MergePatch, patch, &current); err != nil {
		return nil, fmt.Errorf("annotating node %s with %v: %w", name, annotations, err)
	}
	return &current, nil
}

// SetCondition sets a condition of the node and changes nothing else: a strategic merge patch merges conditions by type, so that the kubelet's
// stay. It returns the updated node.
func (a *Client) SetCondition(ctx context.Context, node string, c corev1.NodeCondition) (*corev1.Node, error) {
	var current corev1.Node
	patch := map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{c}}}
	if err := a.Patch(ctx, nodePath(node)+"/status", kubeapi.StrategicMergePatch, patch, &current); err != nil {
		return nil, fmt.Errorf("setting condition %s of node %s: %w", c.Type, node, err)
	}
	return &current, nil
}

func nodePath(name string) string { return nodesPath + "/" + url.PathEscape(name) }

// CreateEvent creates an event unless one with that name exists. Events of cluster-scoped objects are in namespace default.
func (a *Client) CreateEvent(ctx context.Context, e *eventsv1.Event) error {
	err := a.Create(ctx, "/apis/events.k8s.io/v1/namespaces/"+url.PathEscape(e.Namespace)+"/events", e)
	if err != nil && !kubeapi.HasCode(err, http.StatusConflict) {
		return fmt.Errorf("creating an event of %s %s: %w", e.Regarding.Kind, e.Regarding.Name, err)
	}
	return nil
}

// Issue implements identity.Requester with certificates for a day.
func (a *Client) Issue(ctx context.Context, p identity.Pending) ([]byte, error) {
	return kubeapi.Requester{Client: a.Client, Duration: 24 * time.Hour}.Issue(ctx, p)
}

// ServicesConfigMap returns the name of the ConfigMap with the settings for nodes of a version.
func ServicesConfigMap(version string) string { return api.ServicesConfigMapPrefix + version }
