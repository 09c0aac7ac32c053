package daemon_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sim/servers"
)

// patience limits every wait.
const patience = time.Minute

const (
	nodePath     = "/api/v1/nodes/win-1"
	requestsPath = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	WICDFile     = desired.WICDCertificates + `\wicd-client-current.pem`
	PendingFile  = desired.WICDCertificates + `\wicd-client-pending.pem`
	// kubeletPendingFile is the kubelet's pending key.
	kubeletPendingFile = desired.KubeletCertificates + `\kubelet-client.key.tmp`
)

// member is a host with the service running, and its cluster.
type member struct {
	cluster *servers.Cluster
	windows *sim.Windows
	request wicdapi.JoinRequest
	// serial is the serial of the last published settings.
	serial int64
	stop   func()
	// dial is WICD's network if it differs from the host's.
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu  sync.Mutex
	log bytes.Buffer
}

// Write implements io.Writer for the log.
func (m *member) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.log.Write(p)
}

// newMember joins a host to a new cluster. prepare runs before the service does.
func newMember(t *testing.T, prepare func(c *servers.Cluster)) *member {
	t.Helper()
	return newMemberWith(t, prepare, sim.KubeletOptions{}.Program())
}

// newMemberWith does the same with another kubelet.
func newMemberWith(t *testing.T, prepare func(c *servers.Cluster), kubelet sim.Program) *member {
	t.Helper()
	cluster, err := servers.NewCluster()
	if err != nil {
		t.Fatal(err)
	}
	return newMemberOf(t, cluster, prepare, sim.WindowsOptions{
		RestartDelay: 100 * time.Millisecond, Programs: map[string]sim.Program{"kubelet": kubelet},
	})
}

// newMemberOf does the same with the caller's cluster.
func newMemberOf(t *testing.T, cluster *servers.Cluster, prepare func(c *servers.Cluster), o sim.WindowsOptions) *member {
	t.Helper()
	t.Cleanup(cluster.Close)
	prepare(cluster)
	c := newCargo("1")
	m := &member{cluster: cluster, request: newMemberRequest(cluster, c), stop: func() {}}
	o.Dial = cluster.Dial
	m.windows = newWindows(t, o)
	mustSend(t, m.windows, c)
	mustJoin(t, m.windows, m.request)
	t.Cleanup(func() { m.stop() })
	m.start(t)
	return m
}

// start runs the service.
func (m *member) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	host := m.windows.Host()
	if m.dial != nil {
		host.Dial = m.dial
	}
	go func() {
		defer close(done)
		daemon.Run(ctx, host, daemon.RunOptions{Log: slog.New(slog.NewJSONHandler(m, nil))})
	}()
	m.stop = func() { cancel(); <-done }
}

// await polls until holds returns true, because the awaited change happens in the cluster or on the host.
func (m *member) await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(patience); !holds(); {
		select {
		case <-tick.C:
		case <-end:
			m.mu.Lock()
			defer m.mu.Unlock()
			t.Fatalf("waited %v until %s; the log:\n%s", patience, what, m.log.String())
		}
	}
}

func (m *member) node() (n corev1.Node) {
	m.cluster.Get(nodePath, &n)
	return n
}

// giveRange waits for the node, and assigns its pod addresses.
func (m *member) giveRange(t *testing.T) {
	t.Helper()
	m.await(t, "the node is registered", func() bool { return m.node().Name != "" })
	m.cluster.Patch(nodePath, map[string]any{"spec": map[string]any{"podCIDR": "10.132.7.0/24"}})
}

func (m *member) awaitVersion(t *testing.T) {
	t.Helper()
	m.await(t, "the version is reported", func() bool {
		return m.node().Annotations[api.AnnotationVersion] == m.request.Desired.Version
	})
}

func TestTheServiceMakesTheNodeComplete(t *testing.T) {
	t.Parallel()
	m := newMember(t, func(*servers.Cluster) {})
	m.giveRange(t)
	m.awaitVersion(t)
	disk := m.windows.Disk()
	expectContent(t, disk, `C:\k\cni\config\cni.conf`, `{"name":"n","type":"t","cidr":"10.132.7.0/24"}`)
	if disk.Exists(desired.BootstrapKubeconfig) || disk.Exists(PendingFile) {
		t.Error("the token or the pending key is still there")
	}
	if m.cluster.Count("PATCH", "/nodes/win-1") > 4 { // WICD's annotations, the states of services, WICD's condition, the kubelet's status
		t.Errorf("the node was patched %d times", m.cluster.Count("PATCH", "/nodes/win-1"))
	}
	var facts wicdapi.Facts
	if err := wicdapi.Call(t.Context(), newWire(m.windows), wicdapi.CommandFacts, nil, &facts, nil); err != nil || !facts.Joined.HasCertificate {
		t.Errorf("facts %+v, %v", facts.Joined, err)
	}
	var status wicdapi.Status
	if err := wicdapi.Call(t.Context(), newWire(m.windows), wicdapi.CommandStatus, nil, &status, nil); err != nil || len(status.Certificates) != 3 {
		t.Errorf("certificates %v, %v", status.Certificates, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if strings.Contains(m.log.String(), m.cluster.Token) || strings.Contains(m.log.String(), "PRIVATE KEY") {
		t.Error("a secret is in the log")
	}
}

func TestRestartKeepsCertificateRequest(t *testing.T) {
	t.Parallel()
	isOurs := func(r *certificatesv1.CertificateSigningRequest) bool { return strings.HasPrefix(r.Name, "wicd-") }
	m := newMember(t, func(c *servers.Cluster) {
		c.Approve(func(r *certificatesv1.CertificateSigningRequest) bool { return !isOurs(r) })
	})
	for range 3 {
		before := m.cluster.Count("POST", requestsPath)
		m.await(t, "the request is made", func() bool {
			return m.windows.Disk().Exists(PendingFile) && m.cluster.Count("POST", requestsPath) >= before
		})
		m.stop()
		m.start(t)
	}
	names := map[string]bool{}
	m.cluster.Approve(func(r *certificatesv1.CertificateSigningRequest) bool {
		if isOurs(r) {
			names[r.Name] = true
			m.checkRequest(t, r)
		}
		return true
	})
	m.giveRange(t)
	m.awaitVersion(t)
	if len(names) != 1 {
		t.Errorf("requests were made: %v, want one", names)
	}
}

func (m *member) checkRequest(t *testing.T, r *certificatesv1.CertificateSigningRequest) {
	t.Helper()
	if r.Spec.SignerName != "kubernetes.io/kube-apiserver-client" || *r.Spec.ExpirationSeconds != 86400 || len(r.Spec.Usages) != 2 {
		t.Errorf("the request is %+v", r.Spec)
	}
}

func TestTheVersionWaitsForTheServices(t *testing.T) {
	t.Parallel()
	m := newMember(t, func(*servers.Cluster) {})
	m.stop()
	m.request.Desired.Services = append(m.request.Desired.Services, ours("csi-proxy", desired.VersionFolder(m.request.Desired.Digest)+`\csi-proxy.exe`))
	_, err := newWire(m.windows).join(m.request)
	expectCode(t, err, wicdapi.CodeServiceFailed)
	m.start(t)
	m.giveRange(t)
	m.await(t, "the node is ready", func() bool {
		for _, c := range m.node().Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return true
			}
		}
		return false
	})
	if v := m.node().Annotations[api.AnnotationVersion]; v != "" {
		t.Errorf("version %q is reported although a service does not run", v)
	}
	mustWrite(t, m.windows.Disk(), desired.VersionFolder(m.request.Desired.Digest)+`\csi-proxy.exe`, "there now")
	mustJoin(t, m.windows, m.request)
	m.awaitVersion(t)
}

func TestARefusedRequestIsNotRepeatedWithTheSameKey(t *testing.T) {
	m := newMember(t, func(c *servers.Cluster) {
		c.Approve(func(r *certificatesv1.CertificateSigningRequest) bool { return !strings.HasPrefix(r.Name, "wicd-") })
	})
	var name string
	m.await(t, "the request is made", func() bool {
		for _, path := range m.cluster.Paths() {
			if strings.HasPrefix(path, requestsPath+"/wicd-") {
				name = path
			}
		}
		return name != ""
	})
	m.cluster.Patch(name, map[string]any{"status": map[string]any{"conditions": []any{
		map[string]any{"type": "Denied", "status": "True", "reason": "Test", "message": "not this one"},
	}}})
	m.await(t, "the key that was refused is gone", func() bool { return !m.windows.Disk().Exists(PendingFile) })
}

// TestANewTokenIsUsedForNewRequests leaves the requests made with the first token unanswered forever, as the operator does after it has sent
// another one.
func TestANewTokenIsUsedForNewRequests(t *testing.T) {
	t.Parallel()
	m := newMember(t, func(c *servers.Cluster) {
		c.Approve(func(*certificatesv1.CertificateSigningRequest) bool { return false })
	})
	first := map[string]bool{}
	m.await(t, "kubelet and service have made their requests", func() bool {
		for _, path := range m.cluster.Paths() {
			if name, ok := strings.CutPrefix(path, requestsPath+"/"); ok {
				first[name] = true
			}
		}
		return len(first) == 2
	})
	m.cluster.Approve(func(r *certificatesv1.CertificateSigningRequest) bool { return !first[r.Name] })
	m.stop()
	m.request.Bootstrap.Token = "another-bootstrap-token"
	m.cluster.SetToken(m.request.Bootstrap.Token)
	mustJoin(t, m.windows, m.request)
	m.start(t)
	m.giveRange(t)
	m.awaitVersion(t)
}
