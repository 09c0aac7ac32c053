package settings

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/payload"
)

// TestStatusReportsCloudProvider has a cloud initialize a Linux node while the operator runs: kubelets get the flag.
func TestStatusReportsCloudProvider(t *testing.T) {
	linux := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "linux-1", Labels: map[string]string{corev1.LabelOSStable: "linux"}}}
	c, _ := newTestSettings(t, linux)
	pass := func() *v1alpha1.CloudProviderStatus {
		t.Helper()
		if _, err := c.Reconcile(t.Context(), reconcile.Request{}); err != nil {
			t.Fatal(err)
		}
		var config v1alpha1.WindowsConfig
		if err := c.Client.Get(t.Context(), types.NamespacedName{Name: api.WindowsConfigName}, &config); err != nil {
			t.Fatal(err)
		}
		return config.Status.CloudProvider
	}
	if got := pass(); got == nil || got.Mode != v1alpha1.CloudProviderNone || !strings.Contains(got.Reason, "no Linux node") {
		t.Errorf("at first: got %+v", got)
	}
	linux.Spec.ProviderID = "vsphere://4237"
	if err := c.Client.Update(t.Context(), linux); err != nil {
		t.Fatal(err)
	}
	if got := pass(); got == nil || got.Mode != v1alpha1.CloudProviderExternal || !strings.Contains(got.Reason, "vsphere") {
		t.Errorf("then: got %+v", got)
	}
	var cm corev1.ConfigMapList
	if err := c.Client.List(t.Context(), &cm); err != nil {
		t.Fatal(err)
	}
	ok := false
	for _, item := range cm.Items {
		if strings.HasPrefix(item.Name, api.ServicesConfigMapPrefix) {
			for _, text := range item.Data {
				ok = ok || strings.Contains(text, "--cloud-provider=external")
			}
		}
	}
	if !ok {
		t.Error("no flag is published for kubelets")
	}
	if p := reportProvider(desired.Cluster{}.CloudProvider, &v1alpha1.CloudProviderStatus{Mode: "x"}); p.Mode != "x" {
		t.Errorf("an unreadable cluster changes the reported provider: %+v", p)
	}
}

// TestPayloadDeterminesNodeManagerOnAzure has Linux nodes on Azure, and a payload with the cloud-node-manager, or without.
func TestPayloadDeterminesNodeManagerOnAzure(t *testing.T) {
	program := payload.File{
		Path: "azure-cloud-node-manager.exe", Component: "azure-cloud-node-manager", Version: "v1", Group: payload.Azure, SHA256: strings.Repeat("a", 64), Size: 1,
	}
	for name, test := range map[string]struct {
		files   []payload.File
		want    v1alpha1.CloudProvider
		missing bool
	}{
		"with":    {[]payload.File{program}, v1alpha1.CloudProviderExternal, false},
		"without": {nil, v1alpha1.CloudProviderNone, true},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := newTestSettings(t, &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: "linux-1", Labels: map[string]string{corev1.LabelOSStable: "linux"}},
				Spec:       corev1.NodeSpec{ProviderID: "azure:///subscriptions/s"},
			})
			c.Renderer.Releases = controllertest.Releases(t, "1.0.0", payload.New(test.files, payload.File{}), "v1.36.3")
			if _, err := c.Reconcile(t.Context(), reconcile.Request{}); err != nil {
				t.Fatal(err)
			}
			var config v1alpha1.WindowsConfig
			if err := c.Client.Get(t.Context(), types.NamespacedName{Name: api.WindowsConfigName}, &config); err != nil {
				t.Fatal(err)
			}
			if got := config.Status.CloudProvider; got == nil || got.Mode != test.want || len(config.Status.MissingServices) > 0 != test.missing {
				t.Errorf("the provider is %+v, want %s; missing are %v", got, test.want, config.Status.MissingServices)
			}
			declared, err := c.Store.Declares(t.Context(), desired.NodeManagerService)
			if err != nil || declared == test.missing {
				t.Errorf("nodes run the cloud-node-manager: %v (%v)", declared, err)
			}
		})
	}
}
