package cli_test

import (
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/cli/clitest"
	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
)

// checked adds a Lease of the given age, a Secret with the given key, a certificate request and a PodDisruptionBudget to a cluster.
func checked(t *testing.T, c *clitest.Cluster, renewed time.Duration, key string) *clitest.Cluster {
	t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: fleetstatus.DeploymentName, Namespace: api.DefaultNamespace}}
	lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now().Add(-renewed)}
	c.Add("coordination.k8s.io/v1/leases", lease)
	c.Add("v1/secrets", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: api.PrivateKeySecret, Namespace: api.DefaultNamespace}, Data: map[string][]byte{key: []byte("secret text")}})
	c.Add("certificates.k8s.io/v1/certificatesigningrequests", &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "csr-1", CreationTimestamp: at(time.Hour)}, Spec: certificatesv1.CertificateSigningRequestSpec{Username: "system:node:win-1"},
	})
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"}}
	budget.Status.ExpectedPods = 1
	c.Add("policy/v1/poddisruptionbudgets", budget)
	return c
}

func TestCheckFindsProblems(t *testing.T) {
	r := checked(t, fleet(t), time.Hour, "id_rsa").Run(t, "", "check")
	golden(t, "check.golden", r.Out)
	if r.Code != session.CodeFindings || !strings.Contains(r.Err, "found an error") {
		t.Errorf("exit code %d: %s", r.Code, r.Err)
	}
	if strings.Contains(r.Out, "secret text") {
		t.Error("a secret is printed")
	}
}

func TestCheckFindsNothing(t *testing.T) {
	c := checked(t, empty(t), time.Second, api.PrivateKeyKey)
	c.Add("apps/v1/deployments", deployment())
	r := c.Run(t, "", "check")
	if r.Code != session.CodeOK || strings.Contains(r.Out, "✗") {
		t.Errorf("exit code %d: %s%s", r.Code, r.Out, r.Err)
	}
}
