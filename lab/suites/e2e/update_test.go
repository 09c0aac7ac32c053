//go:build linux

package e2e

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
	"github.com/windows-machine-config/wmco/payload"
)

// TestWindowsHostUpdatesItself updates a node to a version with another WICD, and then to one whose WICD is not a program. The node must do this without
// the operator's connections, with real services, and must roll back from the second version.
func TestWindowsHostUpdatesItself(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunRegistries())
	p := newHarness(t, testenv.Options{WineHosts: 1})
	host := p.Lab.Hosts()[0]
	p.joinAll()
	p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Rollout.Paused = true }) // otherwise the operator returns the node to its own version
	stats, err := host.Stats()
	must(t, err)
	first := p.published(p.reported("win-1"))
	program, err := host.ReadFile(desired.Root + `\` + payload.WICD)
	must(t, err)
	second := p.stage(host, first, append(slices.Clone(program), "another version"...))
	p.order("win-1", second.Version)
	p.eventually("the node reports the second version", func(context.Context) string {
		if got := p.reported("win-1"); got != second.Version {
			return "got version " + got
		}
		return ""
	})
	p.expectGuardGone(host)
	before := p.servicesOf(host)
	for name, s := range before {
		if s.State != "running" || !strings.Contains(s.Command, desired.VersionFolder(second.Digest)) {
			t.Errorf("service %s: got %+v, want it running from %s", name, s, desired.VersionFolder(second.Digest))
		}
	}

	third := p.stage(host, first, []byte("this is no program"))
	p.order("win-1", third.Version)
	p.eventually("the node reports the rollback", func(context.Context) string {
		c := nodestate.Condition(p.node("win-1"), api.ConditionUpdated)
		if c == nil || c.Status != corev1.ConditionFalse || c.Reason != api.ReasonUpdateFailed {
			return fmt.Sprintf("got condition %+v", c)
		}
		return ""
	})
	p.expectGuardGone(host)
	for name, got := range p.servicesOf(host) {
		if got != before[name] {
			t.Errorf("service %s after the rollback: got %+v, want %+v", name, got, before[name])
		}
	}
	p.expectEvent("win-1", api.EventUpdateFailed, third.Version)
	if now, err := host.Stats(); err != nil || now.Sub(stats).Connections != 0 {
		t.Errorf("the operator connected %d times (%v), want 0", now.Sub(stats).Connections, err)
	}
}

// published returns the published state of a version.
func (p harness) published(version string) desired.Node {
	p.t.Helper()
	var cm corev1.ConfigMap
	p.get(operatorObject(api.ServicesConfigMapPrefix+version), &cm)
	node, err := desired.FromData(cm.Data)
	must(p.t, err)
	return node
}

// stage publishes a version with another WICD, and puts that into the host's store.
func (p harness) stage(host *lab.Host, base desired.Node, program []byte) desired.Node {
	p.t.Helper()
	sum := sha256.Sum256(program)
	hash := hex.EncodeToString(sum[:])
	must(p.t, host.WriteFile(desired.Store+`\`+hash, program))
	node := base
	node.Digest, node.Version = hash, "0.0.0-"+hash[:7]
	node.Payload, node.Services, node.Files = slices.Clone(base.Payload), slices.Clone(base.Services), slices.Clone(base.Files)
	for i, f := range node.Payload {
		if f.Path == payload.WICD {
			node.Payload[i].SHA256, node.Payload[i].Size = hash, int64(len(program))
		}
	}
	moved := func(path string) string {
		return strings.ReplaceAll(path, desired.VersionFolder(base.Digest), desired.VersionFolder(node.Digest))
	}
	for i, s := range node.Services {
		node.Services[i].Command = moved(s.Command)
	}
	for i, f := range node.Files {
		node.Files[i].Content = moved(f.Content)
	}
	node.Exclusions.Processes = nil
	for _, path := range base.Exclusions.Processes {
		node.Exclusions.Processes = append(node.Exclusions.Processes, moved(path))
	}
	if err := p.asOperator().Create(p.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: api.ServicesConfigMapPrefix + node.Version}, Data: p.signed(node),
	}); err != nil {
		p.t.Fatal(err)
	}
	return node
}

// signed returns the desired state as the operator publishes it: signed with its key.
func (p harness) signed(node desired.Node) map[string]string {
	p.t.Helper()
	data, err := node.Data()
	must(p.t, err)
	data, err = desired.Sign(data, desired.Statement{
		Cluster: p.clusterID(), Name: api.ServicesConfigMapPrefix + node.Version, Serial: time.Now().UnixMilli(),
	}, p.signingKey())
	must(p.t, err)
	return data
}

// order writes a version order for a node, as the operator does.
func (p harness) order(name, version string) {
	p.t.Helper()
	node := p.node(name)
	order := desired.VersionOrder{Cluster: p.clusterID(), Node: name, UID: string(node.UID), Version: version}
	before := node.DeepCopy()
	node.Annotations[api.AnnotationDesiredVersion] = version
	node.Annotations[api.AnnotationVersionOrder] = order.Sign(time.Now().UnixMilli(), p.signingKey())
	must(p.t, p.Client.Patch(p.t.Context(), node, client.MergeFrom(before)))
}

// clusterID returns the UID of namespace kube-system.
func (p harness) clusterID() string {
	p.t.Helper()
	var cluster corev1.Namespace
	p.get(types.NamespacedName{Name: "kube-system"}, &cluster)
	return string(cluster.UID)
}

// signingKey returns the operator's signing key.
func (p harness) signingKey() ed25519.PrivateKey {
	p.t.Helper()
	var secret corev1.Secret
	p.get(operatorObject(api.SigningKeySecret), &secret)
	block, _ := pem.Decode(secret.Data[api.SigningKeyKey])
	if block == nil {
		p.t.Fatalf("Secret %s has no key", secret.Name)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	must(p.t, err)
	return key.(ed25519.PrivateKey)
}

func (p harness) expectGuardGone(host *lab.Host) {
	p.t.Helper()
	p.eventually("the service of the update is removed", func(context.Context) string {
		if s, found := p.servicesOf(host)[api.WICDUpdateService]; found {
			return "its state is " + s.State
		}
		return ""
	})
}

// servicesOf returns the operator's services on a host.
func (p harness) servicesOf(host *lab.Host) map[string]guestapi.Service {
	p.t.Helper()
	list, err := host.Services(p.t.Context())
	must(p.t, err)
	own := map[string]guestapi.Service{}
	for _, s := range list {
		if strings.HasPrefix(s.Name, "windows") || s.Name == "containerd" || s.Name == "kubelet" {
			own[s.Name] = s
		}
	}
	return own
}
