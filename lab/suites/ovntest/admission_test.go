//go:build linux

package ovntest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"github.com/windows-machine-config/wmco/lab/cluster/ovn"
	"github.com/windows-machine-config/wmco/lab/cluster/ovn/story"
)

// Minimal configurations with the hybrid overlay on and off.
const (
	on  = "[kubernetes]\nno-hostsubnet-nodes=kubernetes.io/os=windows\n[hybridoverlay]\nenabled=true\ncluster-subnets=10.132.0.0/14\n"
	off = "[default]\ncluster-subnets=10.128.0.0/14/23\n"
)

func TestCertificatesAreApprovedAsRecorded(t *testing.T) {
	cases, err := story.Certificates()
	must(t, err)
	sides(t, func(t *testing.T, open func() *cluster) {
		c := open()
		c.configure(on)
		c.permitAll("certificatesigningrequests", "certificates.k8s.io", "create")
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(t, err)
		var ignored []string
		for _, q := range cases {
			request, err := cert.MakeCSR(key, &pkix.Name{Organization: q.Organization, CommonName: q.CommonName}, nil, nil)
			must(t, err)
			r := &certificatesv1.CertificateSigningRequest{
				ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
				Spec:       certificatesv1.CertificateSigningRequestSpec{Request: request, SignerName: q.Signer, Usages: q.Usages, ExpirationSeconds: q.Expiration},
			}
			r, err = c.as(q.User, q.Groups...).CertificatesV1().CertificateSigningRequests().Create(t.Context(), r, metav1.CreateOptions{})
			if err != nil {
				t.Fatalf("%s: %v", q.Note, err)
			}
			if q.Verdict == ovn.LeftAlone {
				ignored = append(ignored, r.Name)
				continue
			}
			c.await(&story.Step{Do: q.Note}, "the request is "+string(q.Verdict), func() string { return c.verdict(r.Name, q.Verdict) })
		}
		for _, name := range ignored { // the approver has already handled later requests
			if problem := c.verdict(name, ovn.LeftAlone); problem != "" {
				t.Error(problem)
			}
		}
	})
}

// verdict returns how the state of a request differs from the expected verdict, or "".
func (c *cluster) verdict(name string, want ovn.Verdict) string {
	r, err := c.clients.CertificatesV1().CertificateSigningRequests().Get(c.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	got := ovn.LeftAlone
	for _, condition := range r.Status.Conditions {
		got = ovn.Verdict(strings.ToLower(string(condition.Type)))
	}
	if got != want {
		return fmt.Sprintf("request %s is %s, want %s", name, got, want)
	}
	return ""
}

func TestWritesAreAdmittedAsRecorded(t *testing.T) {
	cases, err := story.Writes()
	must(t, err)
	sides(t, func(t *testing.T, open func() *cluster) {
		c := open()
		c.permitAll("nodes/status", "", "patch")
		c.permitAll("nodes", "", "get")
		// The third configuration needs a flag that ovn.Side does not set.
		for i, conf := range []string{on, off} {
			c.configure(conf)
			c.side.StopManager() // otherwise it would annotate the Nodes
			for _, w := range cases {
				c.write(w, i)
			}
		}
	})
}

// write recreates the Node of a case, and performs the write.
func (c *cluster) write(w story.WriteCase, guard int) {
	c.t.Helper()
	nodes := c.clients.CoreV1().Nodes()
	if err := nodes.Delete(c.t.Context(), w.Node, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		c.t.Fatal(err)
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.Node, Labels: map[string]string{corev1.LabelOSStable: w.OS}, Annotations: w.Before}}
	if _, err := nodes.Create(c.t.Context(), n, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	patch, err := json.Marshal(w.Patch)
	must(c.t, err)
	_, err = c.as(w.User, w.Groups...).CoreV1().Nodes().Patch(c.t.Context(), w.Node, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if rejected := apierrors.IsForbidden(err); rejected == w.Admitted[guard] || err != nil && !rejected {
		c.t.Errorf("configuration %d: %s writes %s on Node %s with %v: got error %v, want admitted %t",
			guard, w.User, patch, w.Node, w.Before, err, w.Admitted[guard])
	}
}

func (c *cluster) configure(conf string) {
	c.t.Helper()
	if err := c.side.Configure(c.t.Context(), conf); err != nil {
		c.t.Fatalf("%v\n%s", err, c.side.Log())
	}
}

// as returns clients that impersonate a user.
func (c *cluster) as(user string, groups ...string) kubernetes.Interface {
	c.t.Helper()
	config := rest.CopyConfig(c.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	clients, err := kubernetes.NewForConfig(config)
	must(c.t, err)
	return clients
}

// permitAll grants all users a permission, so that only the webhook and the approver decide.
func (c *cluster) permitAll(resource, group, verb string) {
	c.t.Helper()
	meta := metav1.ObjectMeta{Name: "all-" + strings.ReplaceAll(resource, "/", "-")}
	role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{verb}}}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:authenticated"}},
	}
	_, err := c.clients.RbacV1().ClusterRoles().Create(c.t.Context(), role, metav1.CreateOptions{})
	must(c.t, err)
	_, err = c.clients.RbacV1().ClusterRoleBindings().Create(c.t.Context(), binding, metav1.CreateOptions{})
	must(c.t, err)
}
