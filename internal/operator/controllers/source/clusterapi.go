package source

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/cluster"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/machines"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// The creator of a Machine decides to which address the operator connects, and in a management cluster, tenants create Machines of their own
// clusters. Outside OpenShift, Machines of Cluster API therefore count only if an administrator enables them, and only those of the Cluster that
// represents this cluster.

// clusterAPIVersions returns the supported versions of Cluster API, in order of preference.
func clusterAPIVersions() []string { return []string{"v1beta2", "v1beta1"} }

// clusterAPIKind returns which Machines of Cluster API to watch: on OpenShift those in its namespace, elsewhere those that WindowsConfig names.
func (s *machineSource) clusterAPIKind(ctx context.Context) (k kube.OptionalKind, err error) {
	platform, err := cluster.ReadPlatform(ctx, s.Live)
	if err != nil {
		return k, err
	}
	of := machines.Cluster{Namespace: s.Namespace, Platform: platform.Type}
	if platform.OpenShift {
		return s.kind(ClusterAPINamespace, of), nil
	}
	config, err := kube.ReadConfig(ctx, s.Client)
	if err != nil {
		return k, err
	}
	if config.ClusterAPI == nil {
		return k, s.unconfigured(ctx)
	}
	if err := s.proveCluster(ctx, *config.ClusterAPI, config.Cluster); err != nil {
		return k, err
	}
	of.Name = config.ClusterAPI.ClusterName
	return s.kind(config.ClusterAPI.Namespace, of), nil
}

// unconfigured returns the condition to report if no namespace is configured: none, unless instances were created from Machines before the setting was
// required.
func (s *machineSource) unconfigured(ctx context.Context) error {
	instances, err := allInstances(ctx, s.Client, s.Namespace)
	if err != nil {
		return err
	}
	for _, i := range sorted(instances) {
		if i.Labels[api.LabelSource] == api.SourceClusterAPI {
			namespace, _, _ := strings.Cut(i.Annotations[api.AnnotationMachine], "/")
			return &kube.Unwanted{Reason: api.ReasonClusterAPINotConfigured, Message: fmt.Sprintf("WindowsInstance %s was created from Machine %s, but spec.clusterAPI of WindowsConfig %q is not set: "+
				"the node remains, but the operator no longer watches the Machine; set spec.clusterAPI.namespace, for example to %s, and spec.clusterAPI.clusterName to the Cluster that represents this cluster",
				i.Name, i.Annotations[api.AnnotationMachine], api.WindowsConfigName, namespace)}
		}
	}
	return &kube.Unwanted{}
}

// proveCluster returns *kube.Unwanted if a Cluster is not proven to be this cluster: its endpoint must be one at which this cluster's API is served.
func (s *machineSource) proveCluster(ctx context.Context, spec v1alpha1.ClusterAPISpec, known v1alpha1.ClusterSpec) error {
	name := types.NamespacedName{Namespace: spec.Namespace, Name: spec.ClusterName}
	object, err := s.readCluster(ctx, name)
	switch {
	case apierrors.IsForbidden(err):
		return s.notPermitted(spec.Namespace, err)
	case kube.Unavailable(err):
		return &kube.Unwanted{Reason: api.ReasonClusterAPIUnavailable, Message: fmt.Sprintf("reading Cluster %s of spec.clusterAPI: %v", name, err)}
	case err != nil:
		return fmt.Errorf("reading Cluster %s: %w", name, err)
	}
	endpoints, err := cluster.APIEndpoints(ctx, s.Live, s.Connection, known)
	if err != nil {
		return err
	}
	host, _, _ := unstructured.NestedString(object.Object, "spec", "controlPlaneEndpoint", "host")
	port, _, _ := unstructured.NestedInt64(object.Object, "spec", "controlPlaneEndpoint", "port")
	endpoint := strings.ToLower(net.JoinHostPort(strings.TrimSuffix(host, "."), strconv.FormatInt(port, 10)))
	if slices.Contains(endpoints, endpoint) {
		return nil
	}
	return &kube.Unwanted{Reason: api.ReasonClusterNotProven, Message: fmt.Sprintf("spec.controlPlaneEndpoint of Cluster %s is %q, but this cluster's API is served at %s "+
		"(server in ConfigMap kube-public/cluster-info, EndpointSlice default/kubernetes); its Machines do not become nodes of this cluster: name the Cluster that represents this cluster in spec.clusterAPI, "+
		"or set server in ConfigMap cluster-info to the endpoint of the Cluster", name, truncate.Text(endpoint, truncate.Quoted), truncate.List(endpoints, endpointsListed, ", "))}
}

// endpointsListed is how many endpoints a message lists at most.
const endpointsListed = 8

// readCluster reads a Cluster in the first version that the API server serves.
func (s *machineSource) readCluster(ctx context.Context, name types.NamespacedName) (object *unstructured.Unstructured, err error) {
	for _, version := range clusterAPIVersions() {
		object = &unstructured.Unstructured{}
		object.SetGroupVersionKind(schema.GroupVersionKind{Group: machines.ClusterAPIGroup, Version: version, Kind: "Cluster"})
		if err = s.Live.Get(ctx, name, object); !meta.IsNoMatchError(err) {
			return object, err
		}
	}
	return nil, err
}

// notPermitted returns how to grant the permission that the operator lacks.
func (s *machineSource) notPermitted(namespace string, err error) *kube.Unwanted {
	return &kube.Unwanted{Reason: api.ReasonClusterAPINotPermitted, Message: fmt.Sprintf("the operator is not permitted to read Machines and Clusters in namespace %[1]s (%[2]v); to permit it, run: "+
		"kubectl create role %[3]s -n %[1]s --verb=get,list,watch --resource=machines.cluster.x-k8s.io,clusters.cluster.x-k8s.io && "+
		"kubectl create rolebinding %[3]s -n %[1]s --role=%[3]s --serviceaccount=%[4]s:%[5]s", namespace, err, clusterAPIRole, s.Namespace, serviceAccount)}
}

// Names in deploy/cluster-api.
const (
	clusterAPIRole = "windows-machine-config-cluster-api"
	serviceAccount = "windows-machine-config-operator"
)

// reportClusterAPI reports the result of a check in a condition of WindowsConfig.
func (s *machineSource) reportClusterAPI(ctx context.Context, err error) {
	s.tried.Store(true)
	var unwanted *kube.Unwanted
	config, failure := kube.ReadConfig(ctx, s.Client)
	place := s.place.Load()
	switch {
	case errors.As(err, &unwanted):
	case place == nil && apierrors.IsForbidden(err) && failure == nil && config.ClusterAPI != nil:
		unwanted = s.notPermitted(config.ClusterAPI.Namespace, err)
	case err != nil: // the API server may be at fault, and OpenShift need not have the kind
		if reported := err.Error(); reported != s.lastLogged { // once, not every minute
			log.FromContext(ctx).Info("Looking for Machines of Cluster API failed, will be retried", "error", reported)
			s.lastLogged = reported
		}
		return
	case place != nil && place.cluster.Name != "":
		unwanted = &kube.Unwanted{Reason: api.ReasonMachinesWatched,
			Message: fmt.Sprintf("Windows Machines of Cluster %s in namespace %s become nodes", place.cluster.Name, place.namespace)}
	default: // OpenShift
		unwanted = &kube.Unwanted{}
	}
	condition := metav1.Condition{Type: api.ConditionClusterAPI, Reason: unwanted.Reason, Message: truncate.Text(unwanted.Message, truncate.Reported)}
	switch unwanted.Reason {
	case "":
	case api.ReasonMachinesWatched:
		condition.Status = metav1.ConditionTrue
	default:
		condition.Status = metav1.ConditionFalse
	}
	if err := kube.WriteCondition(ctx, s.Client, s.Client, condition); err != nil {
		log.FromContext(ctx).Info("Writing condition "+api.ConditionClusterAPI+" failed, will be retried", "error", err.Error())
	}
}
