//go:build linux

package e2e

import (
	"context"
	"fmt"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/lab"
)

// expectCSIProxy calls the csi-proxy of a node as the node plugin of a CSI driver does, for a folder of the kubelet and for another one, which it
// must reject. Then it disables csi-proxy and waits until the service is removed.
func (p harness) expectCSIProxy(host *lab.Host) {
	p.t.Helper()
	p.eventually("csi-proxy answers", func(ctx context.Context) string {
		exists, err := host.CreateFolderWithCSIProxy(ctx, `C:\var\lib\kubelet\plugins\example.com`)
		if err != nil || !exists {
			return fmt.Sprintf("folder exists: %v (%v)", exists, err)
		}
		return ""
	})
	if exists, err := host.CreateFolderWithCSIProxy(p.t.Context(), `C:\elsewhere`); err == nil {
		p.t.Errorf("csi-proxy accepted a folder outside of the kubelet's; it exists: %v", exists)
	}
	p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.CSIProxy = v1alpha1.CSIProxyOff })
	p.eventually("service csi-proxy is removed", func(ctx context.Context) string {
		service, found, err := host.Service(ctx, desired.CSIProxyService)
		if err != nil || found {
			return fmt.Sprintf("got service %+v (%v)", service, err)
		}
		return ""
	})
}
