package daemon_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/windows-machine-config/wmco/internal/node/daemon/credentials"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/identity"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sim/servers"
)

const nodeManagerPending = desired.WICDCertificates + `\cloud-node-manager-client-pending.pem`

// newNodeManagerHost joins a host with the cloud-node-manager to a cluster that approves only some certificate requests at first.
func newNodeManagerHost(t *testing.T, approve func(*certificatesv1.CertificateSigningRequest) bool) *member {
	t.Helper()
	cluster, err := servers.NewIsolatedCluster()
	if err != nil {
		t.Fatal(err)
	}
	cluster.Approve(approve)
	t.Cleanup(cluster.Close)
	c := newCargo("1")
	m := &member{cluster: cluster, request: newMemberRequest(cluster, c), stop: func() {}}
	service := ours(desired.NodeManagerService, desired.VersionFolder(m.request.Desired.Digest)+`\kubelet.exe --v=4`, "kubelet")
	service.Needs = []string{desired.NodeManagerIdentity}
	m.request.Desired.Services = append(m.request.Desired.Services, service)
	m.windows = newWindows(t, sim.WindowsOptions{
		Dial: cluster.Dial, RestartDelay: 100 * time.Millisecond,
		Programs: map[string]sim.Program{"kubelet": sim.KubeletOptions{Heartbeat: time.Minute}.Program()},
	})
	mustSend(t, m.windows, c)
	mustJoin(t, m.windows, m.request)
	t.Cleanup(func() { m.stop() })
	m.start(t)
	m.giveRange(t)
	return m
}

func isForNodeManager(r *certificatesv1.CertificateSigningRequest) bool {
	return strings.HasPrefix(r.Name, "cloud-node-manager-")
}

// nodeManagerIdentity returns the program's certificate; nil while it has no valid one.
func (m *member) nodeManagerIdentity() *identity.Identity {
	b, err := m.windows.Disk().Read(desired.NodeManagerIdentity)
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
func (m *member) nodeManagerRequests() (requests []certificatesv1.CertificateSigningRequest) {
	for _, path := range m.cluster.Paths() {
		var r certificatesv1.CertificateSigningRequest
		if strings.HasPrefix(path, requestsPath) && m.cluster.Get(path, &r) && isForNodeManager(&r) {
			requests = append(requests, r)
		}
	}
	return requests
}

// TestTheCloudNodeManagerRunsWithACertificateOfItsOwn: WICD requests the certificate, and the service starts once it has been issued.
func TestTheCloudNodeManagerRunsWithACertificateOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newNodeManagerHost(t, func(r *certificatesv1.CertificateSigningRequest) bool { return !isForNodeManager(r) })
		m.await(t, "it is requested", func() bool { return len(m.nodeManagerRequests()) == 1 })
		time.Sleep(10 * time.Minute)
		if s := m.windows.Service(desired.NodeManagerService); s.State == hostapi.Running {
			t.Error("the service runs without its certificate")
		}
		m.cluster.Approve(func(*certificatesv1.CertificateSigningRequest) bool { return true })
		m.await(t, "the service runs", func() bool { return m.windows.Service(desired.NodeManagerService).State == hostapi.Running })
		m.awaitVersion(t)
		if m.nodeManagerIdentity() == nil || m.windows.Disk().Exists(nodeManagerPending) {
			t.Error("its certificate is not there, or the key of the request still is")
		}
		for _, r := range m.nodeManagerRequests() {
			if r.Spec.Username != "system:wicd-node:win-1" {
				t.Errorf("%s requested its certificate", r.Spec.Username)
			}
			m.checkRequest(t, &r)
		}
		if status, err := credentials.ReadCertificate(m.windows.Disk(), credentials.CertificateFiles()[3]); err != nil || status == nil {
			t.Errorf("it is not among the certificates of the node: %v", err)
		}
	})
}

// TestCertificatesAreRenewedBeforeTheyExpire runs a host for three days.
func TestCertificatesAreRenewedBeforeTheyExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newNodeManagerHost(t, func(*certificatesv1.CertificateSigningRequest) bool { return true })
		m.await(t, "it has a certificate", func() bool { return m.nodeManagerIdentity() != nil })
		for range 72 {
			time.Sleep(time.Hour)
			wicd, err := credentials.ReadIdentity(m.windows.Disk(), "win-1", time.Now())
			if id := m.nodeManagerIdentity(); id == nil || err != nil || min(time.Until(id.Leaf.NotAfter), time.Until(wicd.Leaf.NotAfter)) < 3*time.Hour {
				t.Fatalf("the certificates are %+v and %+v, %v", id, wicd, err)
			}
		}
		if n := len(m.nodeManagerRequests()); n < 3 || n > 5 {
			t.Errorf("%d were requested in three days", n)
		}
	})
}

// TestARejectedCertificateOfTheCloudNodeManagerIsReplaced sets the cluster's clock two days ahead, so that it accepts none of its certificates.
func TestARejectedCertificateOfTheCloudNodeManagerIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newNodeManagerHost(t, func(*certificatesv1.CertificateSigningRequest) bool { return true })
		m.awaitVersion(t)
		before := m.nodeManagerIdentity()
		m.cluster.SetClock(48 * time.Hour)
		m.cluster.SetAway(true)
		m.cluster.SetAway(false)
		time.Sleep(time.Hour)
		if after := m.nodeManagerIdentity(); after == nil || after.Leaf.Equal(before.Leaf) {
			t.Error("it has the certificate that the cluster rejects")
		}
	})
}

// TestUnusedNodeManagerCertificateIsRemoved removes the service from the node.
func TestUnusedNodeManagerCertificateIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newNodeManagerHost(t, func(*certificatesv1.CertificateSigningRequest) bool { return true })
		m.awaitVersion(t)
		node := m.request.Desired
		node.Services = slices.DeleteFunc(slices.Clone(node.Services), func(s desired.Service) bool { return s.Name == desired.NodeManagerService })
		m.publish(t, node)
		m.await(t, "its certificate is removed", func() bool { return !m.windows.Disk().Exists(desired.NodeManagerIdentity) })
	})
}
