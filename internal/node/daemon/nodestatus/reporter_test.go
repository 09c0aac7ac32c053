package nodestatus_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

func TestVersionIsReportedWhenServicesRun(t *testing.T) {
	t.Parallel()
	m := daemontest.NewMember(t, daemontest.Options{})
	m.Stop()
	m.Request.Desired.Services = append(m.Request.Desired.Services, daemontest.Service("csi-proxy", desired.VersionFolder(m.Request.Desired.Digest)+`\csi-proxy.exe`))
	_, err := daemontest.NewWire(m.Windows).Join(m.Request)
	daemontest.ExpectCode(t, err, wicdapi.CodeServiceFailed)
	m.Start(t)
	m.AssignPodCIDR(t)
	daemontest.Await(t, "the node is ready", func() bool { return m.Condition(corev1.NodeReady).Status == corev1.ConditionTrue })
	if v := m.Node().Annotations[api.AnnotationVersion]; v != "" {
		t.Errorf("version %q is reported although a service does not run", v)
	}
	daemontest.MustWrite(t, m.Windows.Disk(), desired.VersionFolder(m.Request.Desired.Digest)+`\csi-proxy.exe`, "there now")
	daemontest.MustJoin(t, m.Windows, m.Request)
	m.AwaitVersion(t)
}

// Roles may be older than the daemon: a report that they do not allow must not stop its work.
func TestVersionIsReportedWithoutHealth(t *testing.T) {
	t.Parallel()
	m := daemontest.NewFollower(t, daemontest.Options{Prepare: func(m *daemontest.Member) {
		m.Cluster.Forbid(api.WICDUserPrefix, http.MethodPatch, daemontest.NodePath+"/status")
	}})
	if m.Condition(api.ConditionServicesHealthy).Type != "" {
		t.Error("the refused condition exists")
	}
}

func TestEachVersionIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := daemontest.NewIsolated(t, "")
		annotated := func() int {
			return m.Cluster.Count(http.MethodPatch, daemontest.NodePath) - m.Cluster.Count(http.MethodPatch, daemontest.NodePath+"/status")
		}
		time.Sleep(20 * time.Minute) // until the states of services, and Windows updates, are reported
		for _, node := range []desired.Node{m.Changed(), m.Request.Desired, m.Changed()} {
			before := annotated()
			m.Follow(t, node)
			time.Sleep(time.Minute)
			if n := annotated() - before; n != 1 {
				t.Errorf("the node was annotated %d times", n)
			}
		}
	})
}
