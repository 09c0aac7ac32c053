package policysets

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/shared/policyset"
)

// TestObjectsThatDoNotFitClosePods: policies close all pods of their namespace, and are reported. Pods and namespaces are no peers.
func TestObjectsThatDoNotFitClosePods(t *testing.T) {
	for name, c := range map[string]struct {
		cut    []client.ObjectList
		want   policyset.Set
		events int
	}{
		"policies": {
			[]client.ObjectList{&networkingv1.NetworkPolicyList{}},
			policyset.Set{
				Namespace: "shop", Unlisted: policyset.Directions{Ingress: true, Egress: true},
				Policies: []policyset.Policy{{Name: "web", Isolates: policyset.Directions{Ingress: true, Egress: true}}},
				Pods:     []policyset.Pod{{Name: "web-1", UID: "web-1-0123456789abcdef", Policies: []int{0}}},
			}, 1,
		},
		"pods and namespaces": {
			[]client.ObjectList{&corev1.PodList{}, &corev1.NamespaceList{}},
			policyset.Set{Namespace: "shop", Unlisted: policyset.Directions{Ingress: true}}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := newPolicy("shop", "web", "")
				all.Spec.Ingress[0].From[0] = networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{}}
				p := open(t, v1alpha1.PoliciesEnforce, all)
				read := p.controller.start
				p.controller.start = func() (client.Reader, func(), error) {
					reader, end, err := read()
					return cutting{reader, c.cut}, end, err
				}
				p.expect("patch shop", "create shop")
				if got := p.sets()["shop"]; !reflect.DeepEqual(got, c.want) {
					t.Errorf("the set is %+v, want %+v", got, c.want)
				}
				if len(p.events.Events) != c.events || c.events > 0 && !strings.HasPrefix(p.events.Events[0], "Warning NetworkPolicyTooLarge *v1.NetworkPolicy web ") {
					t.Errorf("got events %q", p.events.Events)
				}
			})
		})
	}
}

// cutting is a cache in which only the identities of objects of some kinds fit.
type cutting struct {
	client.Reader
	kinds []client.ObjectList
}

func (c cutting) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if err := c.Reader.List(ctx, list, options...); err != nil {
		return err
	}
	if !slices.ContainsFunc(c.kinds, func(kind client.ObjectList) bool { return reflect.TypeOf(kind) == reflect.TypeOf(list) }) {
		return nil
	}
	none := kube.Informer{Keep: kube.Whole, Bytes: 1}
	return meta.EachListItem(list, func(item runtime.Object) error {
		kept, err := none.Transform(item)
		if err == nil {
			reflect.ValueOf(item).Elem().Set(reflect.ValueOf(kept).Elem())
		}
		return err
	})
}
