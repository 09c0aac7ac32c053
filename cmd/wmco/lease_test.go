package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	restclient "k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/lease"
)

// connections records which connections request the Lease and which request other objects.
type connections struct {
	mu            sync.Mutex
	lease, others map[string]bool
	renewed       chan struct{}
}

func (c *connections) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if strings.Contains(r.URL.Path, "/leases") {
		c.lease[r.RemoteAddr] = true
		select {
		case c.renewed <- struct{}{}:
		default:
		}
	} else {
		c.others[r.RemoteAddr] = true
	}
	if text, known := discovery()[r.URL.Path]; known {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, text)
		return
	}
	w.WriteHeader(http.StatusNotFound)
}

// discovery returns the discovery documents for the kinds that the manager's cache is limited to.
func discovery() map[string]string {
	group := v1alpha1.GroupVersion().Group
	list := func(version string, kinds ...string) string {
		var resources []string
		for _, kind := range kinds {
			resources = append(resources, fmt.Sprintf(`{"name": %q, "kind": %q, "namespaced": true}`, strings.ToLower(kind)+"s", kind))
		}
		return fmt.Sprintf(`{"kind": "APIResourceList", "groupVersion": %q, "resources": [%s]}`, version, strings.Join(resources, ","))
	}
	one := func(group, version string) string {
		v := fmt.Sprintf(`{"groupVersion": "%s/%s", "version": %q}`, group, version, version)
		return fmt.Sprintf(`{"name": %q, "versions": [%s], "preferredVersion": %s}`, group, v, v)
	}
	return map[string]string{
		"/api":    `{"kind": "APIVersions", "versions": ["v1"]}`,
		"/api/v1": list("v1", "Secret", "ConfigMap", "Node", "Pod"),
		"/apis": fmt.Sprintf(`{"kind": "APIGroupList", "apiVersion": "v1", "groups": [%s, %s, %s]}`,
			one("rbac.authorization.k8s.io", "v1"), one("certificates.k8s.io", "v1"), one(group, "v1alpha1")),
		"/apis/certificates.k8s.io/v1":       list("certificates.k8s.io/v1", "CertificateSigningRequest"),
		"/apis/rbac.authorization.k8s.io/v1": list("rbac.authorization.k8s.io/v1", "Role"),
		"/apis/" + group + "/v1alpha1":       list(group+"/v1alpha1", "WindowsInstance"),
	}
}

// TestLeaseUsesSeparateConnection expects separate connections: on a shared one, a thousand events at once cost the operator its Lease.
func TestLeaseUsesSeparateConnection(t *testing.T) {
	seen := &connections{lease: map[string]bool{}, others: map[string]bool{}, renewed: make(chan struct{}, 1)}
	server := httptest.NewUnstartedServer(seen)
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	config := &restclient.Config{Host: server.URL, TLSClientConfig: restclient.TLSClientConfig{Insecure: true}, QPS: -1}
	m, err := newManager(config, flags{namespace: "ns", metrics: metricsOptions{address: "0"}, probeAddress: "0", leaderElect: true}, cache.Options{}, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Start(ctx) }()
	_ = m.GetAPIReader().List(ctx, &corev1.NodeList{})
	select {
	case <-seen.renewed:
	case <-time.After(time.Minute):
		t.Error("the Lease was not requested")
	}
	cancel()
	<-done
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if len(seen.lease) == 0 || len(seen.others) == 0 {
		t.Fatalf("the Lease was requested on %d connections, everything else on %d", len(seen.lease), len(seen.others))
	}
	for address := range seen.lease {
		if seen.others[address] {
			t.Errorf("connection %s is the Lease's and others'", address)
		}
	}
}

func TestLeaseHolderIdentity(t *testing.T) {
	for pod, isShared := range map[string]bool{"wmco-abc": true, "": false} {
		first, err := holder(pod)
		if err != nil {
			t.Fatal(err)
		}
		second, err := holder(pod)
		if err != nil {
			t.Fatal(err)
		}
		if (first == second) != isShared {
			t.Errorf("two processes of pod %q are %s and %s in the Lease, want the same: %v", pod, first, second, isShared)
		}
	}
}

// TestLeaseOutlastsAPIServerUpdate computes for how long the API server may be away, as OpenShift's conventions do.
func TestLeaseOutlastsAPIServerUpdate(t *testing.T) {
	if away := lease.RenewDeadline.Truncate(lease.RetryPeriod) - lease.RetryPeriod; away < 78*time.Second {
		t.Errorf("the operator ends when the API server is unavailable for %v", away)
	}
	if lease.RenewDeadline < 3*(leaseTimeout+lease.RetryPeriod) {
		t.Errorf("fewer than three requests of %v fit into %v", leaseTimeout, lease.RenewDeadline)
	}
}
