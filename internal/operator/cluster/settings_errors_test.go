package cluster

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

func TestInvalidSettingsAreReported(t *testing.T) {
	for name, test := range map[string]struct {
		object  client.Object
		wantErr []string
	}{
		"proxy that is a number":          {proxyOf("status: {httpProxy: 3128}"), []string{"Proxy cluster", "status.httpProxy", "number"}},
		"proxies in a list":               {proxyOf("status: {noProxy: [hunter2]}"), []string{"Proxy cluster", "status.noProxy", "array"}},
		"status that is a string":         {proxyOf("status: hunter2"), []string{"Proxy cluster", "status", "string"}},
		"networks that are strings":       {network("status: {clusterNetwork: [10.128.0.0/14]}"), []string{"Network cluster", "status.clusterNetwork", "string"}},
		"networks that are one string":    {network("status: {clusterNetwork: 10.128.0.0/14}"), []string{"Network cluster", "status.clusterNetwork", "string"}},
		"range that is a number":          {network("status: {clusterNetwork: [{cidr: 10}]}"), []string{"Network cluster", "status.clusterNetwork.cidr", "number"}},
		"kubeadm-config that is not YAML": {kubeadm("\t{"), []string{"ConfigMap kube-system/kubeadm-config"}},
		"empty kubeadm-config":            {kubeadm(""), []string{"ConfigMap kube-system/kubeadm-config", "ClusterConfiguration"}},
		"profile that is a string":        {openshift(openshiftConfig, "APIServer", "cluster", "spec: {tlsSecurityProfile: Modern}"), []string{"APIServer cluster", "spec.tlsSecurityProfile", "string"}},
		"broken base64": {
			controllerConfig("spec: {imageRegistryBundleData: [{file: good, data: QQ==}, {file: bad..5000, data: Q}]}"),
			[]string{"ControllerConfig machine-config-controller", "spec.imageRegistryBundleData", "file bad..5000", "base64"}},
		"broken base64 of users": {
			controllerConfig("spec: {imageRegistryBundleUserData: [{file: bad, data: '!'}]}"),
			[]string{"spec.imageRegistryBundleUserData", "file bad", "base64"}},
		"authorities that are strings": {
			controllerConfig("spec: {imageRegistryBundleData: [QQ==]}"),
			[]string{"ControllerConfig machine-config-controller", "spec.imageRegistryBundleData", "string"}},
		"mirrors that are one string": {
			digests("mine", "spec: {imageDigestMirrors: [{source: a, mirrors: hunter2}]}"),
			[]string{"ImageDigestMirrorSet mine", "spec.imageDigestMirrors.mirrors", "string"}},
		"blocked registries that are one string": {
			openshift(openshiftConfig, imageConfig, "cluster", "spec: {registrySources: {blockedRegistries: hunter2}}"),
			[]string{"Image cluster", "spec.registrySources.blockedRegistries", "string"}},
		"source that is a list": {tags("mine", "spec: {imageTagMirrors: [{source: [a]}]}"), []string{"ImageTagMirrorSet mine", "spec.imageTagMirrors.source", "array"}},
		"policy that is a boolean": {
			tags("mine", "spec: {imageTagMirrors: [{source: a, mirrorSourcePolicy: true}]}"),
			[]string{"ImageTagMirrorSet mine", "mirrorSourcePolicy", "bool"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ReadSettings(t.Context(), reader(append(plain(), test.object)...), namespace, users(), now())
			if err == nil {
				t.Fatalf("read as %+v", got)
			}
			for _, part := range test.wantErr {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not contain %q", err, part)
				}
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%q contains a value that may be a password", err)
			}
		})
	}
}

// request reads an object or, without a name, for a list.
type request struct {
	kind schema.GroupVersionKind
	name client.ObjectKey
}

func (a request) String() string {
	return strings.TrimSuffix(a.kind.Kind, "List") + " " + a.name.String()
}

// watched calls see for each request, and fails the request with its error if there is one.
func watched(r client.WithWatch, see func(request) error) client.Reader {
	kindOf := func(o runtime.Object) schema.GroupVersionKind {
		kind, err := apiutil.GVKForObject(o, clientgoscheme.Scheme)
		if err != nil {
			panic(err) // the test is invalid
		}
		return kind
	}
	return interceptor.NewClient(r, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, name client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if err := see(request{kindOf(o), name}); err != nil {
				return err
			}
			return c.Get(ctx, name, o, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if err := see(request{kind: kindOf(list)}); err != nil {
				return err
			}
			return c.List(ctx, list, options...)
		},
	})
}

// TestReadFailureIsNotTreatedAsMissing fails each request in turn. If a failure looked like missing settings, nodes would lose theirs.
func TestReadFailureIsNotTreatedAsMissing(t *testing.T) {
	var all []request
	expectSettings(t, watched(reader(plain()...), func(a request) error { all = append(all, a); return nil }), onlyUsers())
	if len(all) != 11 {
		t.Errorf("the requests are %v, want 11", all)
	}
	resource := schema.GroupResource{Group: "g", Resource: "r"}
	for name, failure := range map[string]error{
		"forbidden":   apierrors.NewForbidden(resource, "x", errors.New("no such right")),
		"unavailable": apierrors.NewServiceUnavailable("starting"),
		"timeout":     context.DeadlineExceeded,
		"discovery":   &apiutil.ErrResourceDiscoveryFailed{schema.GroupVersion{Group: "g", Version: "v1"}: apierrors.NewServiceUnavailable("starting")},
	} {
		for _, failing := range all {
			if name == "forbidden" && failing.name == OpenShiftPullSecret() {
				continue // forbidden except on OpenShift: TestPullSecretIsReadWherePermitted
			}
			t.Run(name+" "+failing.String(), func(t *testing.T) {
				r := watched(reader(plain()...), func(a request) error {
					if a == failing {
						return failure
					}
					return nil
				})
				got, err := ReadSettings(t.Context(), r, namespace, users(), now())
				if !errors.Is(err, failure) || !cmp.Equal(got, desired.Settings{}) {
					t.Fatalf("got %+v, %v", got, err)
				}
				object := strings.TrimSuffix(failing.kind.Kind, "List")
				if !strings.Contains(err.Error(), object) || !strings.Contains(err.Error(), failing.name.Name) {
					t.Errorf("%q does not name %s", err, failing)
				}
			})
		}
	}
}

// TestMissingKindsCountAsEmptySettings covers clusters without OpenShift's kinds.
func TestMissingKindsCountAsEmptySettings(t *testing.T) {
	for name, answer := range map[string]func(schema.GroupVersionKind) error{
		"no such kind":     func(k schema.GroupVersionKind) error { return &meta.NoKindMatchError{GroupKind: k.GroupKind()} },
		"no such resource": func(k schema.GroupVersionKind) error { return &meta.NoResourceMatchError{} },
		"not found": func(k schema.GroupVersionKind) error {
			return apierrors.NewNotFound(schema.GroupResource{Group: k.Group, Resource: k.Kind}, "")
		},
		"no such version": func(k schema.GroupVersionKind) error {
			return &apiutil.ErrResourceDiscoveryFailed{k.GroupVersion(): apierrors.NewNotFound(schema.GroupResource{}, "")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			expectSettings(t, watched(reader(plain()...), func(a request) error {
				if strings.HasSuffix(a.kind.Group, ".openshift.io") {
					return answer(a.kind)
				}
				return nil
			}), onlyUsers())
		})
	}
}

func TestAllReadOpenShiftKindsAreWatched(t *testing.T) {
	read := map[schema.GroupVersionKind]bool{}
	see := func(a request) error {
		a.kind.Kind = strings.TrimSuffix(a.kind.Kind, "List")
		if strings.HasSuffix(a.kind.Group, ".openshift.io") && a.kind.Kind != "Infrastructure" {
			read[a.kind] = true
		}
		return nil
	}
	expectSettings(t, watched(reader(plain()...), see), onlyUsers())
	if _, err := readNetwork(t.Context(), watched(reader(infrastructure("")), see), v1alpha1.NetworkSpec{}); err != nil {
		t.Fatal(err)
	}
	byKind := func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) }
	if diff := cmp.Diff(slices.SortedFunc(maps.Keys(read), byKind), slices.SortedFunc(slices.Values(Kinds()), byKind)); diff != "" {
		t.Errorf("(-read +watched):\n%s", diff)
	}
}
