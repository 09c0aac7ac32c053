package overlay_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

const requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

func (h *host) file(name string) string { return filepath.Join(h.options.CertDir, name) }

// certificate returns the host's current certificate; nil if it has none.
func (h *host) certificate() *x509.Certificate {
	b, err := os.ReadFile(h.file("ovnkube-client-current.pem"))
	if err != nil {
		return nil
	}
	pair, err := tls.X509KeyPair(b, b)
	if err != nil {
		h.env.Errorf("certificate and key in one file: %v", err)
		return nil
	}
	return pair.Leaf
}

// files returns the files of the host's identity.
func (h *host) files() []string {
	h.env.Helper()
	entries, err := os.ReadDir(h.options.CertDir)
	if err != nil {
		h.env.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.Name() != "subnet-holders" && e.Name() != "made-networks" {
			names = append(names, e.Name())
		}
	}
	return names
}

// requested returns all requests.
func (e *env) requested() (all []certificatesv1.CertificateSigningRequest) {
	for _, path := range e.cluster.Paths() {
		var r certificatesv1.CertificateSigningRequest
		if strings.HasPrefix(path, requests) && e.cluster.Get(path, &r) {
			all = append(all, r)
		}
	}
	return all
}

func TestCertificateRequestIsApprovedByOVNKubernetes(t *testing.T) {
	story(t, func(e *env) {
		h := e.overlaid(0)
		all := e.requested()
		if len(all) != 1 {
			t.Fatalf("%d requests, want 1", len(all))
		}
		seconds := int32(24 * 60 * 60)
		want := certificatesv1.CertificateSigningRequestSpec{
			Request: all[0].Spec.Request, SignerName: "kubernetes.io/kube-apiserver-client", ExpirationSeconds: &seconds,
			Usages: []certificatesv1.KeyUsage{"digital signature", "client auth"},
		}
		if diff := cmp.Diff(want, all[0].Spec); diff != "" {
			t.Errorf("request (-want +got):\n%s", diff)
		}
		block, _ := pem.Decode(all[0].Spec.Request)
		queried, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if got := queried.Subject.String(); got != (pkix.Name{CommonName: "system:ovn-node:win-1", Organization: []string{"system:ovn-nodes"}}).String() {
			t.Errorf("subject %s", got)
		}
		if diff := cmp.Diff([]string{"ovnkube-client-current.pem"}, h.files()); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
	})
}

func TestRestartKeepsPendingRequest(t *testing.T) {
	story(t, func(e *env) {
		e.cluster.Approve(func(*certificatesv1.CertificateSigningRequest) bool { return false })
		h := e.windows(1, sim.HNSOptions{}).start()
		e.passes(20 * time.Minute)
		h.stop()
		h.start()
		e.passes(20 * time.Minute)
		if len(h.service.State().Networks) > 0 {
			t.Error("networks were created before any Node was known")
		}
		e.cluster.Approve(func(*certificatesv1.CertificateSigningRequest) bool { return true })
		e.await(30*time.Second, "the overlay is configured", h.published)
		if n := len(e.requested()); n != 1 {
			t.Errorf("%d requests, want the same one", n)
		}
	})
}

func TestDeniedRequestIsRetriedWithNewKey(t *testing.T) {
	story(t, func(e *env) {
		e.cluster.Approve(func(*certificatesv1.CertificateSigningRequest) bool { return false })
		h := e.windows(1, sim.HNSOptions{}).start()
		e.await(time.Minute, "there is a request", func() bool { return len(e.requested()) == 1 })
		e.cluster.Patch(requests+"/"+e.requested()[0].Name, map[string]any{"status": map[string]any{"conditions": []any{
			map[string]any{"type": "Denied", "status": "True", "reason": "No", "message": "not today"},
		}}})
		e.await(time.Second, "it is logged", func() bool { return h.log.count("not today") == 1 })
		e.await(6*time.Minute, "there is another request", func() bool { return len(e.requested()) == 2 })
		e.cluster.Approve(func(r *certificatesv1.CertificateSigningRequest) bool { return len(r.Status.Conditions) == 0 })
		e.await(time.Minute, "the overlay is configured", h.published)
	})
}

func TestCertificatesAreRenewed(t *testing.T) {
	story(t, func(e *env) {
		h := e.overlaid(0)
		first := h.certificate()
		e.passes(17 * time.Hour)
		if !h.certificate().Equal(first) {
			t.Error("it was renewed before three quarters of its duration")
		}
		e.passes(4 * time.Hour)
		if h.certificate().Equal(first) {
			t.Error("it was not renewed before 85% of its duration")
		}
		e.passes(72 * time.Hour)
		if left := time.Until(h.certificate().NotAfter); left < 3*time.Hour {
			t.Errorf("after three days the certificate is valid for %v", left)
		}
		h.service.ResetCalls()
		e.linux(1)
		e.await(5*time.Second, "a node joined", func() bool { return h.has(linuxRemote(1)) })
		h.wantChanges(map[string]int{"AddRemotes": 1})
		if files := h.files(); !slices.Equal(files, []string{"ovnkube-client-current.pem"}) {
			t.Errorf("files: %v", files)
		}
	})
}

func TestExpiredOrForeignCertificateIsReplaced(t *testing.T) {
	story(t, func(e *env) {
		h := e.overlaid(0)
		first := h.certificate()
		h.stop()
		other := e.windows(2, sim.HNSOptions{}).start()
		e.await(time.Minute, "another host's overlay is configured", other.published)
		content, err := os.ReadFile(other.file("ovnkube-client-current.pem"))
		if err == nil {
			err = os.WriteFile(h.file("ovnkube-client-current.pem"), content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		h.start()
		e.await(time.Minute, "the host has its own certificate", func() bool { c := h.certificate(); return c != nil && c.Subject.CommonName == "system:ovn-node:win-1" })
		h.stop()
		e.passes(48 * time.Hour)
		e.linux(1)
		h.start()
		e.await(time.Minute, "it works after the certificate expired", func() bool { return h.has(linuxRemote(1), other.remote()) })
		if h.certificate().Equal(first) {
			t.Error("it presents the expired certificate")
		}
		if h.log.count("does not accept the certificate") > 0 {
			t.Error("it presented the expired certificate")
		}
	})
}

// TestRejectedCertificateIsReplaced: a cluster with a new CA rejects a certificate that has not expired.
func TestRejectedCertificateIsReplaced(t *testing.T) {
	story(t, func(e *env) {
		h := e.overlaid(0)
		h.stop()
		first := h.certificate()
		e.cluster.SetClock(30 * time.Hour)
		e.linux(1)
		h.start()
		e.await(5*time.Minute, "it works with another certificate", func() bool { return h.has(linuxRemote(1)) && !h.certificate().Equal(first) })
	})
}

func TestCertificatesOfTheOriginalProgramAreRemoved(t *testing.T) {
	story(t, func(e *env) {
		h := e.overlaid(0)
		h.stop()
		first := h.certificate()
		// client-go's store names certificates by their dates, and links to the last one.
		dated := h.file("ovnkube-client-2000-01-01-00-00-00.pem")
		if err := os.Rename(h.file("ovnkube-client-current.pem"), dated); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(dated, h.file("ovnkube-client-current.pem")); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"ovnkube-client-1999-12-31-00-00-00.pem", "ovnkube-client-updated.pem", "cni.conf", "ovnkube-client-2000.key"} {
			if err := os.WriteFile(h.file(name), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		e.linux(1)
		h.start()
		e.await(time.Minute, "it works", func() bool { return h.has(linuxRemote(1)) })
		if diff := cmp.Diff([]string{"cni.conf", "ovnkube-client-2000.key", "ovnkube-client-current.pem"}, h.files()); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
		if info, err := os.Lstat(h.file("ovnkube-client-current.pem")); err != nil || info.Mode()&fs.ModeSymlink != 0 || !h.certificate().Equal(first) {
			t.Errorf("the current certificate was changed (as a file: %v)", err)
		}
	})
}

// TestOnlyFirstCertificateNeedsKubelet: the kubelet's files change while it renews its certificate. Once the program has its own certificate,
// it does not need them.
func TestOnlyFirstCertificateNeedsKubelet(t *testing.T) {
	story(t, func(e *env) {
		h := e.windows(1, sim.HNSOptions{})
		ca := filepath.Join(t.TempDir(), "ca.crt")
		if err := os.WriteFile(ca, []byte(e.cluster.CA), 0o600); err != nil {
			t.Fatal(err)
		}
		h.options.Server, h.options.CAFile = e.cluster.URL, ca
		h.start()
		e.await(time.Minute, "the overlay is configured", h.published)
		h.stop()
		if err := os.Remove(h.options.BootstrapKubeconfig); err != nil {
			t.Fatal(err)
		}
		e.linux(1)
		h.start()
		e.await(time.Minute, "it works", func() bool { return h.has(linuxRemote(1)) })
	})
}
