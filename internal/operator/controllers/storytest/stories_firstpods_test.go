package storytest

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/observe/podcause"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
	"github.com/windows-machine-config/wmco/internal/shared/proxy"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// firstPull is a common reason why the first pod of a cluster cannot pull its image.
type firstPull struct {
	configure func(*v1alpha1.WindowsConfigSpec)
	// message returns containerd's error on a node with these settings, or "" if the pull succeeds.
	message         func(join.Want) string
	reason, advised string
	remedy          func(*story)
}

const firstHead = `failed to resolve reference "r.test/shop/web:1": failed to do request: Head "https://r.test/v2/shop/web/manifests/1": `

func firstPulls(ca string) map[string]firstPull {
	const proxyURL = "http://proxy.test:3128"
	return map[string]firstPull{
		"a blocked registry": {func(c *v1alpha1.WindowsConfigSpec) { c.Registries.BlockedRegistries = []string{"r.test"} }, blockedMessage,
			api.EventRegistryBlocked, "allow its registry in the object and field of the message",
			func(s *story) {
				s.configure(func(c *v1alpha1.WindowsConfigSpec) { c.Registries.BlockedRegistries = nil })
			}},
		"a wrong proxy": {func(c *v1alpha1.WindowsConfigSpec) { c.Proxy.HTTPSProxy = "http://prox.test:3128" }, func(want join.Want) string {
			if want.Node.Environment[proxy.HTTPSProxy] == proxyURL {
				return ""
			}
			return firstHead + "proxyconnect tcp: dial tcp: lookup prox.test: no such host"
		}, api.EventProxyUnreachable, "spec.proxy of WindowsConfig",
			func(s *story) { s.configure(func(c *v1alpha1.WindowsConfigSpec) { c.Proxy.HTTPSProxy = proxyURL }) }},
		"a CA of the company": {func(*v1alpha1.WindowsConfigSpec) {}, func(want join.Want) string {
			if strings.Contains(want.Node.Certificates, strings.TrimSpace(ca)) {
				return ""
			}
			return firstHead + "tls: failed to verify certificate: x509: certificate signed by unknown authority"
		}, api.EventRegistryUntrusted, "ConfigMap trusted-ca in the operator's namespace", func(s *story) {
			s.must(s.client.Create(s.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: api.TrustedCAConfigMap}, Data: map[string]string{api.TrustedCAKey: ca}}))
			s.settingsSeen = ""
		}},
	}
}

// blockedMessage returns the response of WICD's registry if no registry may be contacted.
func blockedMessage(want join.Want) string {
	name, err := mirrors.ParseName("r.test", "shop/web")
	if err != nil || want.Node.Registries == nil {
		return ""
	}
	route := mirrors.NewRouter(*want.Node.Registries).Route(name, mirrors.Tags)
	if len(route.Attempts) > 0 {
		return ""
	}
	return "unexpected status from HEAD request to https://127.0.0.1:10280/v2/shop/web/manifests/1?ns=r.test: 403 Forbidden\ndenied: " + mirrors.NoRegistryAllowed +
		" r.test/shop/web: " + strings.Join(route.Skipped, "; ")
}

// TestRemediesFixFirstPulls: the cause of a failed pull is reported, and the pull succeeds after the advised remedy.
func TestRemediesFixFirstPulls(t *testing.T) {
	ca := authority(t)
	for name, p := range firstPulls(ca) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStory(t, 1, v1alpha1.RolloutSpec{})
				s.configure(p.configure)
				s.joined()
				message := func() string {
					want, err := s.store.Read(s.ctx, s.version, controllertest.ClusterID)
					s.must(err)
					return p.message(want)
				}
				pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "win-1"}}
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Image: "r.test/shop/web:1", State: corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: message()},
				}}}
				if cause := podcause.Of(pod, podcause.Cluster{Nodes: s.nodes()}); cause.Reason != p.reason {
					t.Errorf("the cause of the pod is %s: %s; want %s", cause.Reason, cause.Message, p.reason)
				}
				s.mustAdvise(p.reason, p.advised)
				p.remedy(s)
				s.until("the pod gets its image", time.Hour, func() bool { return message() == "" })
				if s.ready() != 1 {
					t.Error("the node is not Ready")
				}
			})
		})
	}
}

// authority returns the certificate of a CA that Windows does not trust.
func authority(t *testing.T) string {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Company CA"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2049, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// TestRemedyFixesNodeWithoutSubnet runs the real WICD and overlay on a host to which OVN-Kubernetes assigns no subnet.
func TestRemedyFixesNodeWithoutSubnet(t *testing.T) {
	content := quirksPayload(t)
	synctest.Test(t, func(t *testing.T) {
		q := newQuirky(t, content, windowsbuild.Server2022, sim.Quirks{})
		defer q.close()
		deadline := time.Now().Add(quirksTimeout)
		for q.attempt(t.Context()) != nil {
			if time.Now().After(deadline) {
				t.Fatal("it does not join")
			}
			time.Sleep(30 * time.Second)
		}
		reason := ""
		for reason != api.ReasonOverlaySubnetMissing && time.Now().Before(deadline) { // for the first minute, the condition reports other missing things
			time.Sleep(5 * time.Second)
			var node corev1.Node
			q.cluster.Get(q.path(), &node)
			for _, c := range node.Status.Conditions {
				if c.Type == api.ConditionWindowsNetworkUnavailable && c.Status == corev1.ConditionTrue {
					reason = c.Reason
				}
			}
		}
		if reason != api.ReasonOverlaySubnetMissing {
			t.Errorf("the reason on the Node is %q", reason)
		}
		(&story{t: t}).mustAdvise(reason, "cluster manager of OVN-Kubernetes runs with its hybrid overlay enabled")
		if since, cause := q.awaitReady(deadline); since.IsZero() { // assigns the subnet as the cluster manager would
			t.Errorf("the Node is not Ready: %s", cause)
		}
	})
}
