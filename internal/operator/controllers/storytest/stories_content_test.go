package storytest

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/payload"
)

// TestHostsGetContentForTheirNetwork: hosts are offered only the files of their network provider, under the same version.
func TestHostsGetContentForTheirNetwork(t *testing.T) {
	flanneld := payload.File{Path: "flanneld.exe", Component: "flanneld", Version: "v1", Group: payload.Flannel, SHA256: strings.Repeat("f", 64), Size: 1}
	for provider, want := range map[v1alpha1.NetworkProvider]bool{v1alpha1.NetworkCustom: false, v1alpha1.NetworkFlannel: true} {
		synctest.Test(t, func(t *testing.T) {
			s := newStory(t, 1, atMost(1))
			s.content = payload.New(append(s.content.Files, flanneld), payload.File{})
			s.startOperator()
			if provider == v1alpha1.NetworkFlannel {
				s.must(s.client.Create(s.ctx, &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.FlannelNamespace, Name: v1alpha1.FlannelConfigMap},
					Data:       map[string]string{desired.FlannelConfigKey: `{"Network": "10.244.0.0/16", "Backend": {"Type": "vxlan", "VNI": 4096, "Port": 4789}}`},
				}))
				s.configure(func(c *v1alpha1.WindowsConfigSpec) { c.Network = v1alpha1.NetworkSpec{Provider: provider} })
			}
			s.joined()
			offered := s.hosts[0].offered
			if ok := slices.ContainsFunc(offered, func(c wicdapi.Content) bool { return c.SHA256 == flanneld.SHA256 }); ok != want || len(offered) < 2 {
				t.Errorf("provider %s: the host was offered %v; flanneld is among it: %v, want %v", provider, offered, ok, want)
			}
			if got := s.node("win-1").Annotations[api.AnnotationVersion]; got != s.version {
				t.Errorf("provider %s: the node has version %s, want %s", provider, got, s.version)
			}
		})
	}
}
