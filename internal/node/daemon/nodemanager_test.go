package daemon_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/windows-machine-config/wmco/internal/node/daemon/credentials"
	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/identity"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

const nodeManagerPending = desired.WICDCertificates + `\cloud-node-manager-client-pending.pem`

// newNodeManagerHost joins a host with the cloud-node-manager to a cluster that approves only some certificate requests at first.
func newNodeManagerHost(t *testing.T, approve func(*certificatesv1.CertificateSigningRequest) bool) *daemontest.Member {
	t.Helper()
	m := daemontest.NewMember(t, daemontest.Options{Heartbeat: time.Minute, Prepare: func(m *daemontest.Member) {
		m.Cluster.Approve(approve)
		service := daemontest.Service(desired.NodeManagerService, desired.VersionFolder(m.Request.Desired.Digest)+`\kubelet.exe --v=4`, "kubelet")
		service.Needs = []string{desired.NodeManagerIdentity}
		m.Request.Desired.Services = append(m.Request.Desired.Services, service)
	}})
	m.AssignPodCIDR(t)
	return m
}

func isForNodeManager(r *certificatesv1.CertificateSigningRequest) bool {
	return strings.HasPrefix(r.Name, "cloud-node-manager-")
}

// nodeManagerIdentity returns the program's certificate; nil while it has no valid one.
func nodeManagerIdentity(m *daemontest.Member) *identity.Identity {
	b, err := m.Windows.Disk().Read(desired.NodeManagerIdentity)
	if err != nil {
		return nil
	}
	id, err := identity.Parse(b, identity.Name{User: "system:windows-cloud-node-manager:win-1", Group: "system:windows-cloud-node-managers"}, time.Now())
	if err != nil {
		return nil
	}
	return &id
}

// nodeManagerRequests returns the cluster's requests for it.
func nodeManagerRequests(m *daemontest.Member) (requests []certificatesv1.CertificateSigningRequest) {
	for _, path := range m.Cluster.Paths() {
		var r certificatesv1.CertificateSigningRequest
		if strings.HasPrefix(path, daemontest.RequestsPath) && m.Cluster.Get(path, &r) && isForNodeManager(&r) {
			requests = append(requests, r)
		}
	}
	return requests
}

// TestCloudNodeManagerHasOwnCertificate: WICD requests the certificate, and the service starts once it has been issued.
func TestCloudNodeManagerHasOwnCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newNodeManagerHost(t, func(r *certificatesv1.CertificateSigningRequest) bool { return !isForNodeManager(r) })
		daemontest.Await(t, "it is requested", func() bool { return len(nodeManagerRequests(m)) == 1 })
		time.Sleep(10 * time.Minute)
		if s := m.Windows.Service(desired.NodeManagerService); s.State == hostapi.Running {
			t.Error("the service runs without its certificate")
		}
		m.Cluster.Approve(func(*certificatesv1.CertificateSigningRequest) bool { return true })
		daemontest.Await(t, "the service runs", func() bool { return m.Windows.Service(desired.NodeManagerService).State == hostapi.Running })
		m.AwaitVersion(t)
		if nodeManagerIdentity(m) == nil || m.Windows.Disk().Exists(nodeManagerPending) {
			t.Error("its certificate does not exist, or the key of the request still does")
		}
		for _, r := range nodeManagerRequests(m) {
			if r.Spec.Username != "system:wicd-node:win-1" {
				t.Errorf("%s requested its certificate", r.Spec.Username)
			}
			if r.Spec.SignerName != "kubernetes.io/kube-apiserver-client" || *r.Spec.ExpirationSeconds != 86400 || len(r.Spec.Usages) != 2 {
				t.Errorf("the request is %+v", r.Spec)
			}
		}
		if status, err := credentials.ReadCertificate(m.Windows.Disk(), credentials.CertificateFiles()[3]); err != nil || status == nil {
			t.Errorf("it is not among the certificates of the node: %v", err)
		}
	})
}

// TestCertificatesAreRenewedBeforeTheyExpire runs a host for three days.
func TestCertificatesAreRenewedBeforeTheyExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newNodeManagerHost(t, func(*certificatesv1.CertificateSigningRequest) bool { return true })
		daemontest.Await(t, "it has a certificate", func() bool { return nodeManagerIdentity(m) != nil })
		for range 72 {
			time.Sleep(time.Hour)
			wicd, err := credentials.ReadIdentity(m.Windows.Disk(), "win-1", time.Now())
			if id := nodeManagerIdentity(m); id == nil || err != nil || min(time.Until(id.Leaf.NotAfter), time.Until(wicd.Leaf.NotAfter)) < 3*time.Hour {
				t.Fatalf("the certificates are %+v and %+v, %v", id, wicd, err)
			}
		}
		if n := len(nodeManagerRequests(m)); n < 3 || n > 5 {
			t.Errorf("%d were requested in three days", n)
		}
	})
}

// TestRejectedCloudNodeManagerCertificateIsReplaced sets the cluster's clock two days ahead, so that it accepts none of its certificates.
func TestRejectedCloudNodeManagerCertificateIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newNodeManagerHost(t, func(*certificatesv1.CertificateSigningRequest) bool { return true })
		m.AwaitVersion(t)
		before := nodeManagerIdentity(m)
		m.Cluster.SetClock(48 * time.Hour)
		m.Cluster.SetUnavailable(true)
		m.Cluster.SetUnavailable(false)
		time.Sleep(time.Hour)
		if after := nodeManagerIdentity(m); after == nil || after.Leaf.Equal(before.Leaf) {
			t.Error("it presents the rejected certificate")
		}
	})
}

// TestUnusedNodeManagerCertificateIsRemoved removes the service from the node.
func TestUnusedNodeManagerCertificateIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newNodeManagerHost(t, func(*certificatesv1.CertificateSigningRequest) bool { return true })
		m.AwaitVersion(t)
		node := m.Request.Desired
		node.Services = slices.DeleteFunc(slices.Clone(node.Services), func(s desired.Service) bool { return s.Name == desired.NodeManagerService })
		m.Publish(t, node)
		daemontest.Await(t, "its certificate is removed", func() bool { return !m.Windows.Disk().Exists(desired.NodeManagerIdentity) })
	})
}
