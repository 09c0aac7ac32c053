package explain

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
)

// mapped is a client whose cluster has the kinds of mapper.
type mapped struct {
	client.Client
	mapper meta.RESTMapper
}

func (m mapped) RESTMapper() meta.RESTMapper { return m.mapper }

func TestMissingGMSASupportIsAnnotated(t *testing.T) {
	with, without := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Group: "windows.k8s.io", Version: "v1"}}), meta.NewDefaultRESTMapper(nil)
	with.Add(schema.GroupVersionKind{Group: "windows.k8s.io", Version: "v1", Kind: "GMSACredentialSpec"}, meta.RESTScopeRoot)
	for want, mapper := range map[string]meta.RESTMapper{"the webhook of windows-gmsa is not installed": with, "kind GMSACredentialSpec does not exist": without} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1"}, Spec: corev1.PodSpec{
			OS: &corev1.PodOS{Name: corev1.Windows}, NodeName: "win-1", Containers: []corev1.Container{{Name: "web"}},
			SecurityContext: &corev1.PodSecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{GMSACredentialSpecName: new("web-gmsa")}},
		}}
		p := open(t, nil, pod)
		p.controller.Client = mapped{p.controller.Client, mapper}
		for range 2 {
			if got := p.reconcile(t.Context(), pod); !strings.HasPrefix(got, api.EventCredentialSpecMissing+": ") || !strings.Contains(got, want) || !strings.Contains(got, "web-gmsa") {
				t.Errorf("the annotation is %q, want %q in it", got, want)
			}
		}
		if len(p.events.Events) != 1 {
			t.Errorf("the events are %q", p.events.Events)
		}
	}
}
