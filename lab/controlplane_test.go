//go:build linux

package lab

import (
	"crypto/x509/pkix"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/windows-machine-config/wmco/internal/testing/controlplane"
	"github.com/windows-machine-config/wmco/payload/payloadtest"
)

func mustClient(t *testing.T, c *rest.Config) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(c)
	must(t, err)
	return client
}

func mustLoad(t *testing.T, path string) *rest.Config {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("%s has mode %o, want 600: it holds credentials", path, mode)
	}
	c, err := clientcmd.BuildConfigFromFlags("", path)
	must(t, err)
	return c
}

// TestControlPlane runs the control plane without hosts.
func TestControlPlane(t *testing.T) {
	cp, err := StartControlPlane(t.Context(), ControlPlaneOptions{})
	must(t, err)
	t.Cleanup(cp.Stop)
	t.Run("ReportsTheVersionOfKubernetes", func(t *testing.T) {
		v, err := mustClient(t, cp.RESTConfig()).Discovery().ServerVersion()
		if want := payloadtest.Required(t, ".", "k8s.io/kubernetes"); err != nil || v.GitVersion != want {
			t.Errorf("version: got %v (%v), want %s", v, err, want)
		}
	})
	t.Run("ServiceAccountsHaveOnlyTheirOwnPermissions", func(t *testing.T) { expectRightsOfAccounts(t, cp) })
	t.Run("CertificatesOfOtherCAsAreRejected", func(t *testing.T) { expectUnauthorized(t, cp) })
	t.Run("StopRemovesEverything", func(t *testing.T) {
		cp.Stop()
		cp.Stop()
		if _, err := os.Stat(cp.folder.Path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the state folder still exists: %v", err)
		}
	})
}

func expectRightsOfAccounts(t *testing.T, cp *ControlPlane) {
	t.Helper()
	dir := t.TempDir()
	must(t, cp.Kubeconfig(filepath.Join(dir, "admin")))
	if _, err := mustClient(t, mustLoad(t, filepath.Join(dir, "admin"))).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error("listing nodes as administrator:", err)
	}
	must(t, cp.KubeconfigFor(t.Context(), "default", "default", filepath.Join(dir, "account")))
	client := mustClient(t, mustLoad(t, filepath.Join(dir, "account")))
	if _, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("listing nodes as an account without permissions: %v, want Forbidden", err)
	}
	if err := cp.KubeconfigFor(t.Context(), "default", "missing", filepath.Join(dir, "missing")); !apierrors.IsNotFound(err) {
		t.Errorf("kubeconfig of a missing account: %v, want NotFound", err)
	}
}

func expectUnauthorized(t *testing.T, cp *ControlPlane) {
	t.Helper()
	other, err := controlplane.NewAuthority()
	must(t, err)
	pair, err := other.Issue(pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}}, nil, nil)
	must(t, err)
	c := cp.RESTConfig()
	c.CertData, c.KeyData = pair.Cert, pair.Key
	if _, err := mustClient(t, c).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("a certificate of another CA: %v, want Unauthorized", err)
	}
}

// waitUntil calls check until it returns "", with a timeout for a busy machine.
func waitUntil(t *testing.T, what string, check func() (missing string)) {
	t.Helper()
	var last string
	for end := time.Now().Add(Timeout(time.Minute)); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if last = check(); last == "" {
			return
		}
	}
	t.Errorf("%s: %s", what, last)
}
