package settings

import (
	"crypto/ed25519"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/admission"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/payload"
)

// newTestSettings returns the controller in a plain cluster with a network and the given objects.
func newTestSettings(t *testing.T, more ...client.Object) (*Controller, *controllertest.Recorder) {
	t.Helper()
	c := controllertest.Cluster(t, more...)
	recorder := &controllertest.Recorder{}
	return New(Options{
		Client: c, Live: c, Events: kube.NewEvents(recorder), Namespace: "ns", Store: NewStore(c, c, "ns"), Policies: admission.New(c, kube.NewEvents(recorder), nil), Registry: prometheus.NewRegistry(),
		Renderer: &Renderer{Live: c, Nodes: c, Namespace: "ns", Releases: controllertest.Releases(t, "1.0.0", payload.New(nil, payload.File{}), "v1.36.3"), Cluster: NewClusterCache()},
	}), recorder
}

// authority returns a CA certificate in PEM that expires at a time.
func authority(t *testing.T, name string, end time.Time) string {
	t.Helper()
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: end.AddDate(-2, 0, 0), NotAfter: end,
	}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// TestUnusableCertificateIsReported: the original operator never sent the event for an unreadable certificate, because it compared the error
// with a nil pointer.
func TestUnusableCertificateIsReported(t *testing.T) {
	good, end := authority(t, "good", time.Now().AddDate(1, 0, 0)), "-----END CERTIFICATE-----\n"
	damaged := strings.Replace(authority(t, "damaged", time.Now().AddDate(1, 0, 0)), "M", "!", 1)
	for name, test := range map[string]struct {
		bundle string
		want   []string // parts of the messages, in order
	}{
		"none":     {good, nil},
		"damaged":  {damaged + good, []string{"ConfigMap trusted-ca, key ca-bundle.crt, line 1: invalid PEM block"}},
		"cut":      {good + strings.TrimSuffix(good, end), []string{"its END line is missing"}},
		"expired":  {authority(t, "old", time.Now().AddDate(-1, 0, 0)) + good, []string{`certificate "CN=old" expired`}},
		"a number": {good + damaged + damaged, []string{"line ", "line "}},
	} {
		t.Run(name, func(t *testing.T) {
			cm := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: api.TrustedCAConfigMap}, Data: map[string]string{api.TrustedCAKey: test.bundle},
			}
			c, recorder := newTestSettings(t, cm)
			if _, err := c.Reconcile(t.Context(), reconcile.Request{}); err != nil {
				t.Fatal(err)
			}
			expectProblems(t, c, recorder, "Warning SettingsIgnored *v1.ConfigMap trusted-ca ", test.want)
			var published corev1.ConfigMap
			key := client.ObjectKey{Namespace: "ns", Name: api.ServicesConfigMapPrefix + controllertest.Version(c.Renderer.Releases)}
			if err := c.Live.Get(t.Context(), key, &published); err != nil {
				t.Fatal(err)
			}
			if node, err := desired.FromData(published.Data); err != nil || node.Certificates != good {
				t.Errorf("nodes trust (%v)\n%s", err, node.Certificates)
			}
		})
	}
}

// TestNodesKeepHyperVWhileClassExists: pods may still use the class.
func TestNodesKeepHyperVWhileClassExists(t *testing.T) {
	class := func(name, handler, managedBy string) *nodev1.RuntimeClass {
		return &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{api.LabelManagedBy: managedBy}}, Handler: handler}
	}
	others := []client.Object{class("windows2022", api.HandlerProcessIsolation, api.ManagedBy), class("theirs", api.HandlerHyperVIsolation, "them")}
	for name, test := range map[string]struct {
		config v1alpha1.RuntimeClassesSpec
		more   []client.Object
		want   bool
	}{
		"not configured": {v1alpha1.RuntimeClassesSpec{}, nil, false},
		"configured":     {v1alpha1.RuntimeClassesSpec{HyperV: &v1alpha1.HyperVSpec{}}, nil, true},
		"class exists":   {v1alpha1.RuntimeClassesSpec{}, []client.Object{class("tenants", api.HandlerHyperVIsolation, api.ManagedBy)}, true},
	} {
		c, _ := newTestSettings(t, append(test.more, others...)...)
		var config v1alpha1.WindowsConfig
		if err := c.Live.Get(t.Context(), client.ObjectKey{Name: api.WindowsConfigName}, &config); err != nil {
			t.Fatal(err)
		}
		config.Spec.RuntimeClasses = test.config
		_, rendered, err := c.Renderer.Render(t.Context(), config.Spec)
		if ok := slices.Contains(rendered.Node.Features, desired.HyperVFeature); err != nil || ok != test.want {
			t.Errorf("%s: nodes have it: %v, %v", name, ok, err)
		}
	}
}

// TestWICDRoleAllowsOnlyFollowedConfigMaps: in the original operator they could not, and noticed changes by chance. lab/suites/deploytest tests that
// the rules suffice for a real API server.
func TestWICDRoleAllowsOnlyFollowedConfigMaps(t *testing.T) {
	node := func(name string, annotations map[string]string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "windows"}, Annotations: annotations}}
	}
	linux := node("linux", map[string]string{api.AnnotationVersion: "4.0.0"})
	linux.Labels = nil
	c, _ := newTestSettings(t, linux,
		node("old", map[string]string{api.AnnotationVersion: "0.9.0-abc"}),
		node("moves", map[string]string{api.AnnotationVersion: "0.9.0-abc", api.AnnotationDesiredVersion: "2.0.0"}),
		node("lies", map[string]string{api.AnnotationVersion: "../kube-root-ca.crt", api.AnnotationDesiredVersion: "*"}),
	)
	if _, err := c.Reconcile(t.Context(), reconcile.Request{}); err != nil {
		t.Fatal(err)
	}
	var role rbacv1.Role
	if err := c.Live.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: api.WICDRole}, &role); err != nil {
		t.Fatal(err)
	}
	now := api.ServicesConfigMapPrefix + controllertest.Version(c.Renderer.Releases)
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "watch"},
			ResourceNames: []string{"windows-services-0.9.0-abc", now, "windows-services-2.0.0"}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}, ResourceNames: []string{"windows-node-secrets"}},
	}
	if diff := cmp.Diff(want, role.Rules); diff != "" {
		t.Errorf("rules of daemons (-want +got):\n%s", diff)
	}
}

// expectProblems expects a warning for each problem, and all of them in the status of WindowsConfig.
func expectProblems(t *testing.T, c *Controller, recorder *controllertest.Recorder, about string, want []string) {
	t.Helper()
	var warnings []string
	for _, e := range recorder.Events {
		if strings.HasPrefix(e, "Warning ") {
			warnings = append(warnings, e)
		}
	}
	if len(warnings) != len(want) {
		t.Fatalf("%d warnings, want %d: %q", len(warnings), len(want), warnings)
	}
	var config v1alpha1.WindowsConfig
	if err := c.Live.Get(t.Context(), types.NamespacedName{Name: api.WindowsConfigName}, &config); err != nil {
		t.Fatal(err)
	}
	degraded := meta.FindStatusCondition(config.Status.Conditions, api.ConditionDegraded)
	if degraded == nil || degraded.Status == metav1.ConditionTrue != (len(want) > 0) {
		t.Fatalf("condition Degraded is %+v", degraded)
	}
	for i, part := range want {
		if !strings.HasPrefix(warnings[i], about) || !strings.Contains(warnings[i], part) || !strings.Contains(degraded.Message, part) {
			t.Errorf("%q is neither in event %q nor in message %q", part, warnings[i], degraded.Message)
		}
	}
}

// TestMissingPoliciesAreACondition reports the status while one of the policies is missing.
func TestMissingPoliciesAreACondition(t *testing.T) {
	settings, _ := newTestSettings(t)
	guards, cluster := controllertest.IncompleteGuards(t)
	settings.Policies = admission.New(cluster, kube.NewEvents(&controllertest.Recorder{}), guards)
	if _, err := settings.Policies.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	var config v1alpha1.WindowsConfig
	if err := settings.Client.Get(t.Context(), types.NamespacedName{Name: api.WindowsConfigName}, &config); err != nil {
		t.Fatal(err)
	}
	if err := settings.report(t.Context(), &config, published{hash: "x"}); err != nil {
		t.Fatal(err)
	}
	if !meta.IsStatusConditionFalse(config.Status.Conditions, api.ConditionPolicies) {
		t.Errorf("WindowsConfig has the conditions %+v, want PoliciesInForce to be False", config.Status.Conditions)
	}
}
