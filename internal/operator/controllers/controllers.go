// Package controllers lists the operator's controllers, each of which has its own package below this one, and wires their dependencies.
//
// Each reconcile gathers state, decides, acts and reports. None waits: later steps are triggered by an event or a requeue. Only a join takes as long
// as its host needs, on its own worker.
package controllers

import (
	"context"
	"net/netip"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/deploy"
	"github.com/windows-machine-config/wmco/internal/operator/cluster"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/admission"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/clusterversion"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/csrapproval"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/explain"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/fleet"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/instance"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/networkpolicies"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/overlayleftovers"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/policysets"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/runtimeclass"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/settings"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/source"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/upgradeable"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/userdata"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/kubeversions"
	"github.com/windows-machine-config/wmco/payload"
)

// Options are the dependencies of all controllers.
type Options struct {
	// Namespace of the operator, with its Secret and ConfigMaps.
	Namespace string
	// Version is the operator's semantic version; nodes report it with the payload's digest appended.
	Version string
	// Payload is the operator's content for hosts.
	Payload *payload.Payload
	// ApplyPolicies means that the operator itself applies the admission policies that limit hosts.
	ApplyPolicies bool
	// OperatorCondition is the name of the OperatorCondition that OLM has created for this version of the operator; empty without OLM.
	OperatorCondition string
	// OneMachine means that the API server runs on the only host.
	OneMachine bool
	// Informers describe the manager's cache.
	Informers kube.Informers
	// Registry receives the metrics.
	Registry prometheus.Registerer
}

// Controller is a controller that can be added to a manager.
type Controller interface {
	// Register adds the controller to the manager.
	Register(ctx context.Context, m manager.Manager) error
}

// All returns the controllers.
func All(m manager.Manager, o Options) ([]Controller, error) {
	o.Registry.MustRegister(buildInfo(o))
	guards, err := deploy.Guards()
	if err != nil {
		return nil, err
	}
	if err := freeShares(m, o); err != nil {
		return nil, err
	}
	var (
		client, live = m.GetClient(), m.GetAPIReader()
		events       = kube.NewEvents(m.GetEventRecorder(api.ManagedBy))
		servers      = clusterversion.NewServers(live, m.GetConfig())
		connection   = cluster.Connection{OneMachine: o.OneMachine, ServerNames: servers.Names}
		releases     = clusterversion.New(kubeversions.Of(o.Version, o.Payload.Manifest), servers.Versions, servers.Kubelets)
		policies     = admission.New(live, events, guards)
		resolver     = source.NewResolver(nil)
		reserved     = source.NewReservedAddresses(client, live, connection, resolver)
		hosts        = source.NewOwnership(resolver)
		published    = settings.NewStore(client, live, o.Namespace)
		renderer     = &settings.Renderer{Live: live, Connection: connection, Nodes: client, Namespace: o.Namespace, Releases: releases, Cluster: settings.NewClusterCache()}
		sources      = source.Options{Client: client, Live: live, Connection: connection, Events: events, Namespace: o.Namespace, Hosts: hosts, Reserved: reserved}
	)
	if o.ApplyPolicies {
		policies = admission.NewApplying(client, live, events, guards)
	}
	plans := fleet.New(fleet.Options{
		Client: client, Events: events, Namespace: o.Namespace, Releases: releases, Registry: o.Registry, Store: published,
	})
	machineAPI, clusterAPI := source.NewMachines(sources, api.SourceMachine), source.NewMachines(sources, api.SourceClusterAPI)
	hosts.Announcers = []source.Announcer{machineAPI, clusterAPI}
	return []Controller{
		releases,
		policies,
		reserved,
		source.NewConfigMap(sources),
		machineAPI,
		clusterAPI,
		userdata.New(userdata.Options{Client: client, Live: live, Events: events, Namespace: o.Namespace}),
		settings.New(settings.Options{Client: client, Live: live, Events: events, Namespace: o.Namespace, Store: published, Renderer: renderer, Policies: policies, Registry: o.Registry}),
		plans,
		instance.New(instance.Options{
			Client: client, Live: live, Events: events, Registry: o.Registry, Namespace: o.Namespace, Payload: o.Payload, Releases: releases,
			Store: published, Renderer: renderer, Policies: policies, Fleet: plans, Resolver: resolver, Reserved: reserved, Hosts: hosts, Slots: &kube.Slots{}, Names: &instance.NameClaims{},
			Dialer: instance.Dial,
		}),
		csrapproval.New(csrapproval.Options{
			Client: client, Live: live, Events: events, Namespace: o.Namespace, Reserved: reserved, Policies: policies,
			Machines: []csrapproval.Machines{machineAPI, clusterAPI}, Settings: published, CacheShare: o.Informers.ShareOf(&certificatesv1.CertificateSigningRequest{}),
			Registry: o.Registry,
		}),
		&runtimeclass.Controller{Client: client, Live: live, Events: events},
		networkpolicies.New(networkpolicies.Options{Client: client, Live: live, Events: events}),
		policysets.New(policysets.Options{Client: client, Live: live, Events: events, Namespace: o.Namespace, Registry: o.Registry}),
		overlayleftovers.New(overlayleftovers.Options{Client: client, Live: live, Events: events}),
		explain.New(explain.Options{Client: client, Live: live, Events: events, Access: renderer.Access, Ranges: ranges(reserved), Limited: policies.Limited, Registry: o.Registry}),
		&upgradeable.Controller{Client: client, Live: live, Namespace: o.Namespace, Name: o.OperatorCondition},
	}, nil
}

// freeShares periodically releases the cache shares of deleted objects, and counts objects that did not fit.
func freeShares(m manager.Manager, o Options) error {
	cut := kube.NewCounter(api.MetricObjectsCut)
	o.Registry.MustRegister(cut)
	return kube.RunEvery(m, kube.SharesInterval, func(ctx context.Context) {
		o.Informers.FreeShares(ctx, m.GetScheme(), m.GetCache(), func(kind string, n int) { cut.WithLabelValues(kind).Add(float64(n)) })
	})
}

// ranges returns the known address ranges of the cluster's Services and pods: those that cannot be read may not exist in this cluster.
func ranges(r *source.ReservedAddresses) explain.Ranges {
	return func(ctx context.Context) []netip.Prefix {
		known, err := r.With(ctx, "")
		if err != nil {
			log.FromContext(ctx).V(1).Info("Reading some addresses of the cluster failed", "error", err.Error())
		}
		return slices.Concat(known.Services, known.Pods)
	}
}
