// Package controllers holds the operator's controllers, one file for each kind: ConfigMap windows-instances becomes
// WindowsInstances, WindowsInstances become nodes, the certificate requests of their hosts are approved, and what all nodes must
// have is published for them. All lists them.
//
// Each reconcile gathers what there is, decides, acts and reports. None waits: what takes time comes back as an event or
// after a while. Only a join works for as long as its host needs, on a worker of its own.
package controllers

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/deploy"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/remote"
	"github.com/windows-machine-config/wmco/payload"
)

// Options are what all controllers need.
type Options struct {
	// Namespace of the operator, with its Secret and ConfigMaps.
	Namespace string
	// Version is the operator's semantic version; nodes report it with the payload's digest behind it.
	Version string
	// Payload is what the operator carries for hosts.
	Payload *payload.Payload
	// Registry takes the metrics.
	Registry prometheus.Registerer
	// SSH bounds how long a host may take to answer.
	SSH remote.Options
	// Retry is the shortest and the longest time between two attempts at a host that fails; 5 s and 2 min where zero.
	RetryMin, RetryMax time.Duration
}

// Controller watches one kind.
type Controller interface {
	// Register adds the controller to the manager.
	Register(ctx context.Context, m manager.Manager) error
}

// All lists the controllers.
func All(m manager.Manager, o Options) ([]Controller, error) {
	guards, err := deploy.Guards()
	if err != nil {
		return nil, err
	}
	c := common{
		Options:       o,
		content:       o.Payload.Manifest.Select(payload.Base, payload.Flannel),
		client:        m.GetClient(),
		live:          m.GetAPIReader(),
		recorder:      m.GetEventRecorder("windows-machine-config-operator"),
		metrics:       newMetrics(o.Registry, m.GetClient()),
		outlook:       newOutlook(),
		resolver:      newResolver(o.SSH.Lookup),
		reserved:      &reserved{},
		dialer:        dialSSH,
		serverVersion: func() string { return askVersion(m) },
	}
	c.policies = newPolicies(c, guards)
	f := newFleet(c)
	h := &hosts{resolver: c.resolver}
	machineAPI, clusterAPI := newMachines(c, h, api.SourceMachine), newMachines(c, h, api.SourceClusterAPI)
	h.announcers = []announcer{machineAPI, clusterAPI}
	return []Controller{
		c.policies,
		newConfigMaps(c, h),
		machineAPI,
		clusterAPI,
		newUserData(c),
		newSettings(c),
		f,
		newInstances(c, f, h),
		newCertificates(c),
	}, nil
}

// askVersion asks the API server for its version.
func askVersion(m manager.Manager) string {
	d, err := discovery.NewDiscoveryClientForConfigAndClient(m.GetConfig(), m.GetHTTPClient())
	if err != nil {
		return ""
	}
	v, err := d.ServerVersion()
	if err != nil {
		return ""
	}
	return v.GitVersion
}

// Cache limits what the manager keeps and may read: what is in our namespace, and of Secrets and Roles only those with
// our names. Of certificate requests, which whole clusters make, it keeps what is decided by.
func Cache(namespace string) cache.Options {
	ours := cache.ByObject{Namespaces: map[string]cache.Config{namespace: {}}}
	only := func(name string) cache.ByObject {
		return cache.ByObject{
			Namespaces: map[string]cache.Config{namespace: {}},
			Field:      fields.OneTermEqualSelector("metadata.name", name),
		}
	}
	return cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.Secret{}:                            only(api.PrivateKeySecret),
		&corev1.ConfigMap{}:                         ours,
		&rbacv1.Role{}:                              only(api.WICDRole),
		&v1alpha1.WindowsInstance{}:                 ours,
		&certificatesv1.CertificateSigningRequest{}: {Transform: shortened},
	}}
}

// common is what every controller has.
type common struct {
	Options
	// content is what hosts get, each with its network: desired.Content has what one gets.
	content payload.Manifest
	// client reads from the cache and writes; live reads what the cache does not keep.
	client   client.Client
	live     client.Reader
	recorder events.EventRecorder
	metrics  *metrics
	// outlook is the cluster's network.
	outlook *outlook
	// resolver knows what names of hosts mean, reserved which addresses are no host's.
	resolver *resolver
	reserved *reserved
	// policies are the admission policies, as they are in the cluster.
	policies *policies
	// serverVersion is the API server's, empty where it does not say.
	serverVersion func() string
	// dialer reaches hosts.
	dialer func(context.Context, remote.Target, remote.Options) (machine, error)
}

// version is what nodes report that have all of the content.
func (c common) version() string { return desired.Version(c.Version, c.content.Digest) }

// config is what WindowsConfig says; the defaults where there is none.
func (c common) config(ctx context.Context) (v1alpha1.WindowsConfigSpec, error) {
	var config v1alpha1.WindowsConfig
	err := c.client.Get(ctx, types.NamespacedName{Name: api.WindowsConfigName}, &config)
	if client.IgnoreNotFound(err) != nil {
		return v1alpha1.WindowsConfigSpec{}, fmt.Errorf("reading WindowsConfig %s: %w", api.WindowsConfigName, err)
	}
	return config.Spec, nil
}

// event is something to tell about an object. Events that are alike in all of these are counted as one, with the note
// of the first: what differs in more than its wording must differ in one of them.
type event struct {
	// about is the object; related another one it has to do with, or nil.
	about, related client.Object
	// kind is Normal or Warning.
	kind   string
	reason string
	// action says what was done or tried, or which part of it failed; for programs.
	action string
}

// tell makes an event.
func (c common) tell(e event, format string, args ...any) {
	note := fmt.Sprintf(format, args...)
	var related runtime.Object
	if e.related != nil {
		related = e.related
	}
	c.recorder.Eventf(e.about, related, e.kind, e.reason, e.action, "%s", note[:min(len(note), maxEventNote)])
}

// maxEventNote is the API's limit for the note of an event (events.k8s.io/v1).
const maxEventNote = 1024
