package controllers

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/policysets"
	"github.com/windows-machine-config/wmco/internal/operator/csr"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
)

// largest is the maximum size of an object in the API server, in bytes.
const largest = 1_500_000

// TestCachedObjectsAreBounded passes the largest possible objects to each informer: for each list and each string in its kind, one in which
// that takes all of the space.
func TestCachedObjectsAreBounded(t *testing.T) {
	others := slices.DeleteFunc(policysets.Informers("ns"), func(i kube.Informer) bool { return i.Keep == nil })
	for n, i := range slices.Concat(Informers("ns"), others) {
		kind := reflect.TypeOf(i.Object).Elem()
		t.Run(fmt.Sprint(kind.Name(), "-", n), func(t *testing.T) {
			t.Parallel()
			n := 0
			for path, object := range objects(kind) {
				n++
				kept, err := i.Transform(object)
				if err != nil {
					t.Fatal(err)
				}
				if size := kube.Memory(kept); size > max(i.Bytes, 4<<10) {
					t.Errorf("%s: %d bytes are kept, want at most %d", path, size, i.Bytes)
				}
				if again, err := i.Transform(kept); err != nil || kube.Memory(again) > max(i.Bytes, 4<<10) {
					t.Errorf("%s: trimming again keeps %d bytes: %v", path, kube.Memory(again), err)
				}
				if i.Name != "" && kube.IsCut(kept.(client.Object)) {
					t.Errorf("%s: nothing is kept of the only object", path)
				}
			}
			if n < 10 {
				t.Errorf("tried %d objects only", n)
			}
		})
	}
}

// objects yields the largest objects of a kind, with the path of the field that is filled.
func objects(kind reflect.Type) func(yield func(string, client.Object) bool) {
	return func(yield func(string, client.Object) bool) {
		for _, path := range paths(kind, nil, map[reflect.Type]bool{}) {
			if identifies(describe(kind, path)) {
				continue
			}
			object := reflect.New(kind)
			object.Interface().(client.Object).SetUID("uid")
			object.Interface().(client.Object).SetNamespace("ns")
			enlarge(object.Elem(), path)
			forWindows(object.Interface())
			if !yield(describe(kind, path), object.Interface().(client.Object)) {
				return
			}
		}
	}
}

// identifies reports whether the API server limits a string to 253 bytes or writes it itself.
func identifies(path string) bool {
	return strings.Contains(path, ".TypeMeta.") || slices.ContainsFunc([]string{"Name", "Namespace", "UID", "ResourceVersion"}, func(name string) bool {
		return strings.HasSuffix(path, ".ObjectMeta."+name)
	})
}

// forWindows makes an object one of which the informer keeps the most.
func forWindows(o any) {
	switch o := o.(type) {
	case *corev1.Pod:
		o.Spec.OS = &corev1.PodOS{Name: corev1.Windows}
	case *certificatesv1.CertificateSigningRequest:
		if o.Spec.SignerName == "" {
			o.Spec.SignerName = certificatesv1.KubeletServingSignerName
		}
	case *corev1.ConfigMap:
		if o.Name == "" {
			o.Name = api.InstancesConfigMap
		}
	}
}

// paths returns the paths of all lists and strings of a kind, once for each struct type in it.
func paths(kind reflect.Type, path []int, seen map[reflect.Type]bool) (all [][]int) {
	for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice {
		kind = kind.Elem()
	}
	if kind.Kind() != reflect.Struct || seen[kind] {
		return nil
	}
	seen[kind] = true
	for i := range kind.NumField() {
		field := kind.Field(i)
		if !field.IsExported() {
			continue
		}
		at := append(slices.Clone(path), i)
		switch field.Type.Kind() {
		case reflect.Slice, reflect.Map, reflect.String:
			all = append(all, at)
		}
		all = append(all, paths(field.Type, at, seen)...)
	}
	return all
}

// enlarge makes the field at a path as large as possible; lists on the path get one item.
func enlarge(v reflect.Value, path []int) {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Slice && len(path) > 0 {
		if v.Kind() == reflect.Slice {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			v = v.Index(0)
			continue
		}
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	switch {
	case len(path) > 0:
		enlarge(v.Field(path[0]), path[1:])
	case v.Kind() == reflect.String:
		v.SetString(strings.Repeat("x", largest))
	case v.Kind() == reflect.Slice:
		n := largest / 2
		if v.Type().Elem().Kind() == reflect.Struct {
			n = largest / 32 // including the names of required fields
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
	case v.Kind() == reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for i := range largest / 10 {
			v.SetMapIndex(reflect.ValueOf(fmt.Sprintf("%06d", i)).Convert(v.Type().Key()), reflect.Zero(v.Type().Elem()))
		}
	}
}

func describe(kind reflect.Type, path []int) string {
	name := kind.Name()
	for _, i := range path {
		for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice {
			kind = kind.Elem()
		}
		name += "." + kind.Field(i).Name
		kind = kind.Field(i).Type
	}
	return name
}

// TestWatchedKindsHaveInformers compares the list with the operator's permissions: it can watch nothing else. Kinds that are watched by name
// and only for events are not listed, since only the identity of their objects is kept.
func TestWatchedKindsHaveInformers(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/rbac-operator.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, i := range Informers("ns") {
		listed = append(listed, strings.ToLower(reflect.TypeOf(i.Object).Elem().Name()))
	}
	for _, i := range policysets.Informers("ns") {
		listed = append(listed, strings.ToLower(reflect.TypeOf(i.Object).Elem().Name()))
	}
	// Machines have their own cache with limits (source.machineSource.kind); of sets and OpenShift's kinds, only identities are kept.
	listed = append(listed, "windowspolicyset", "machine", "network", "apiserver", "proxie", "image", "imagedigestmirrorset", "imagetagmirrorset", "controllerconfig")
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				kind := strings.TrimSuffix(resource, "s")
				if slices.Contains(rule.Verbs, "watch") && !slices.Contains(listed, kind) && !slices.Contains(listed, strings.TrimSuffix(kind, "e")) &&
					!slices.Contains(listed, strings.TrimSuffix(kind, "ie")+"y") {
					t.Errorf("the operator may watch %s, and no informer with limits is listed for it", resource)
				}
			}
		}
	}
	unlisted := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: "uid", Annotations: map[string]string{"large": strings.Repeat("x", 1<<18)}}}
	kept, err := Informers("ns").Cache().DefaultTransform(unlisted)
	if err != nil || kube.Memory(kept) > 2<<10 || kept.(client.Object).GetUID() != "uid" {
		t.Errorf("of a kind without informer, %d bytes are kept: %v", kube.Memory(kept), err)
	}
}

// TestTenantsShareMemoryLimit: a tenant creates large Windows pods, and a node many certificate requests.
func TestTenantsShareMemoryLimit(t *testing.T) {
	for name, one := range map[string]func(owner, name string) client.Object{
		"pods": func(owner, name string) client.Object {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: owner, Name: name, UID: types.UID(owner + name)}}
			pod.Spec.OS = &corev1.PodOS{Name: corev1.Windows}
			pod.Spec.Tolerations = make([]corev1.Toleration, 300)
			return pod
		},
		"certificate requests": func(owner, name string) client.Object {
			r := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(owner + name)}}
			r.Spec.Username, r.Spec.SignerName, r.Spec.Request = "system:node:"+owner, certificatesv1.KubeletServingSignerName, make([]byte, csr.MaxRequest)
			return r
		},
	} {
		t.Run(name, func(t *testing.T) {
			all := Informers("ns")
			i := all[slices.IndexFunc(all, func(i kube.Informer) bool { return reflect.TypeOf(i.Object) == reflect.TypeOf(one("", "")) })]
			size, cut := 0, 0
			for n := range 30_000 {
				kept, err := i.Transform(one("attacker", fmt.Sprint(n)))
				if err != nil {
					t.Fatal(err)
				}
				size += kube.Memory(kept)
				if kube.IsCut(kept.(client.Object)) {
					cut++
				}
			}
			if size > 60<<20 || cut == 0 {
				t.Errorf("30,000 objects of one owner take %d MiB, %d are cut", size>>20, cut)
			}
			if kept, _ := i.Transform(one("honest", "1")); kube.IsCut(kept.(client.Object)) {
				t.Error("other objects have no room left")
			}
		})
	}
}

// TestCachedCertificateRequestIsSmall: a node creates a request of a megabyte.
func TestCachedCertificateRequestIsSmall(t *testing.T) {
	all := Informers("ns")
	transform := all[slices.IndexFunc(all, func(i kube.Informer) bool {
		return reflect.TypeOf(i.Object) == reflect.TypeFor[*certificatesv1.CertificateSigningRequest]()
	})].Transform
	for size, want := range map[int]int{1000: 1000, csr.MaxRequest: csr.MaxRequest, 1 << 20: csr.MaxRequest + 1} {
		request := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{Username: "system:node:win-1"}}
		request.Spec.SignerName = certificatesv1.KubeletServingSignerName
		request.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
		request.Spec.Request = make([]byte, size)
		kept, err := transform(request)
		if err != nil {
			t.Fatal(err)
		}
		got := kept.(*certificatesv1.CertificateSigningRequest)
		if len(got.Spec.Request) != want || cap(got.Spec.Request) > 2*csr.MaxRequest && size != want || got.ManagedFields != nil || got.Spec.Username == "" {
			t.Errorf("of %d bytes, %d (capacity %d) are kept, want %d and the requester; %+v", size, len(got.Spec.Request), cap(got.Spec.Request), want, got.ManagedFields)
		}
	}
	removed := toolscache.DeletedFinalStateUnknown{Key: "x"}
	if kept, err := transform(removed); err != nil || kept != any(removed) {
		t.Errorf("of a request whose end was missed it makes %v, %v", kept, err)
	}
}
