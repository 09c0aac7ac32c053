package source

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
)

// aCluster returns Cluster API's object of a cluster whose API is served at host and port.
func aCluster(namespace, name, host string, port int64) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"controlPlaneEndpoint": map[string]any{"host": host, "port": port}}}}
	o.SetAPIVersion("cluster.x-k8s.io/v1beta2")
	o.SetKind("Cluster")
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// inCluster returns the source of Cluster API's Machines in a cluster other than OpenShift, whose API hosts reach at api.example:6443.
func inCluster(t *testing.T, spec *v1alpha1.ClusterAPISpec, objects ...client.Object) (*machineSource, client.WithWatch) {
	t.Helper()
	info := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "cluster-info"},
		Data: map[string]string{"kubeconfig": "{clusters: [{name: '', cluster: {server: 'https://api.example:6443'}}]}"}}
	c := controllertest.Cluster(t, append(objects, info)...)
	var config v1alpha1.WindowsConfig
	if err := c.Get(t.Context(), client.ObjectKey{Name: api.WindowsConfigName}, &config); err != nil {
		t.Fatal(err)
	}
	config.Spec.ClusterAPI = spec
	if err := c.Update(t.Context(), &config); err != nil {
		t.Fatal(err)
	}
	return NewMachines(Options{Client: c, Live: c, Namespace: "ns", Events: kube.NewEvents(&controllertest.Recorder{})}, api.SourceClusterAPI), c
}

// forbidding returns a client that may not read Clusters, as without a Role for the operator.
func forbidding(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
		if o.GetObjectKind().GroupVersionKind().Kind == "Cluster" {
			return apierrors.NewForbidden(schema.GroupResource{Group: "cluster.x-k8s.io", Resource: "clusters"}, key.Name, errors.New("no Role"))
		}
		return c.Get(ctx, key, o, options...)
	}})
}

// Any tenant of a management cluster can create Machines of its own clusters: their hosts do not belong to this cluster.
func TestOnlyMachinesOfThisClusterBecomeInstances(t *testing.T) {
	named := &v1alpha1.ClusterAPISpec{Namespace: "self", ClusterName: "mgmt"}
	before := controllertest.Instance("win-a", "ClusterAPI", "tenant-a/win-a", "10.0.0.1")
	tests := map[string]struct {
		spec    *v1alpha1.ClusterAPISpec
		objects []client.Object
		forbid  bool
		reason  string // "" for no condition
		parts   []string
	}{
		"not configured":                      {nil, nil, false, "", nil},
		"existing node without configuration": {nil, []client.Object{before}, false, api.ReasonClusterAPINotConfigured, []string{"tenant-a/win-a", "spec.clusterAPI", "the node remains"}},
		"this cluster":                        {named, []client.Object{aCluster("self", "mgmt", "API.example", 6443)}, false, api.ReasonMachinesWatched, nil},
		"this cluster, by address":            {named, []client.Object{aCluster("self", "mgmt", "10.3.0.5", 6443)}, false, api.ReasonMachinesWatched, nil},
		"cluster of a tenant":                 {named, []client.Object{aCluster("self", "mgmt", "tenant.example", 6443)}, false, api.ReasonClusterNotProven, []string{"tenant.example:6443", "api.example:6443", "10.3.0.5:6443"}},
		"another port at the same address":    {named, []client.Object{aCluster("self", "mgmt", "api.example", 6444)}, false, api.ReasonClusterNotProven, []string{"api.example:6444"}},
		"no endpoint yet":                     {named, []client.Object{aCluster("self", "mgmt", "", 0)}, false, api.ReasonClusterNotProven, nil},
		"missing cluster":                     {named, []client.Object{aCluster("tenant-a", "mgmt", "api.example", 6443)}, false, api.ReasonClusterAPIUnavailable, []string{"self/mgmt"}},
		"forbidden":                           {named, nil, true, api.ReasonClusterAPINotPermitted, []string{"kubectl create role windows-machine-config-cluster-api -n self", "--serviceaccount=ns:windows-machine-config-operator"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s, c := inCluster(t, test.spec, test.objects...)
			if test.forbid {
				s.Live = forbidding(c)
			}
			k, err := s.Kind(t.Context())
			if err == nil {
				if k.Namespace != test.spec.Namespace || k.ID != test.spec.ClusterName {
					t.Errorf("the Machines of %q in %q are watched, want those of %+v", k.ID, k.Namespace, test.spec)
				}
				k.Found(schema.GroupVersionKind{}, c)
			}
			s.reportClusterAPI(t.Context(), err)
			var config v1alpha1.WindowsConfig
			if err := c.Get(t.Context(), client.ObjectKey{Name: api.WindowsConfigName}, &config); err != nil {
				t.Fatal(err)
			}
			reported := meta.FindStatusCondition(config.Status.Conditions, api.ConditionClusterAPI)
			if reported == nil {
				reported = &metav1.Condition{}
			}
			if reported.Reason != test.reason || (reported.Status == metav1.ConditionTrue) != (test.reason == api.ReasonMachinesWatched) {
				t.Errorf("condition %+v, want reason %q", reported, test.reason)
			}
			for _, part := range test.parts {
				if !strings.Contains(reported.Message, part) {
					t.Errorf("the message %q does not name %q", reported.Message, part)
				}
			}
		})
	}
}

// Machines that are not known, or no longer known, neither remove a node nor give their host any names.
func TestIgnoredMachinesChangeNothing(t *testing.T) {
	here := aMachine("cluster", "win-a", "10.0.0.1", "spec: {clusterName: mgmt}")
	tenants := aMachine("cluster", "win-b", "10.0.0.2", "spec: {clusterName: tenants}")
	elsewhere := aMachine("cluster", "win-c", "10.0.0.3", "spec: {clusterName: mgmt}")
	elsewhere.SetNamespace("tenant-a")
	w := newSources(t, here, tenants, elsewhere, controllertest.Instance("win-c", "ClusterAPI", "tenant-a/win-c", "10.0.0.3"))
	place := *w.clusterAPI.place.Load()
	place.cluster.Name = "mgmt"
	w.clusterAPI.place.Store(&place)
	w.pass()
	w.expect("win-a ClusterAPI 10.0.0.1", "win-c ClusterAPI 10.0.0.3")
	w.expectEvent("Warning", api.EventInstanceInvalid, "win-b", `spec.clusterName is "tenants"`)
	i := controllertest.Instance("win-c", "ClusterAPI", "tenant-a/win-c", "10.0.0.3")
	if got := w.clusterAPI.AddressesOf(t.Context(), i); got != nil {
		t.Errorf("the Machine of another namespace provides addresses %q", got)
	}
	w.clusterAPI.place.Store(nil)
	w.must(w.Delete(t.Context(), here))
	if _, err := w.clusterAPI.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(here)}); err != nil {
		t.Fatal(err)
	}
	w.expect("win-a ClusterAPI 10.0.0.1", "win-c ClusterAPI 10.0.0.3")
}

// The names of Machines of every operating system are reserved, except that of the requesting host's own Machine.
func TestMachineNamesAreReserved(t *testing.T) {
	linux := aMachine("machine", "cp-3", "10.0.0.9", "metadata: {labels: {a: b}}", "status: {phase: Running, addresses: [{type: InternalDNS, address: CP-3.example}]}")
	windows := aMachine("machine", "win-a", "10.0.0.1")
	w := newSources(t, linux, windows)
	for name, test := range map[string]struct{ requester, want string }{
		"cp-3":         {"", "Machine openshift-machine-api/cp-3"},
		"cp-3.example": {"openshift-machine-api/win-a", "Machine openshift-machine-api/cp-3"},
		"win-a":        {"openshift-cluster-api/win-a", ""}, // the same Machine in the other API
		"web-1":        {"", ""},
	} {
		if holder := w.machineAPI.Hosts.NamedByAny(t.Context(), name, test.requester); holder != test.want {
			t.Errorf("%s belongs to %q, want %q", name, holder, test.want)
		}
	}
}
