package settings

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// refusing simulates an API server that refuses what is published.
type refusing struct {
	// tries is the error of every creation, dry runs included; creates are the errors of the next creations of ConfigMaps.
	tries   error
	creates []error
	// ends is called after a deletion.
	ends func()
}

// useRefusingServer gives the controller a client of such an API server. As a real one, it refuses a dry run before it reports that the name exists.
func useRefusingServer(c *Controller, r *refusing) {
	base := c.Client.(client.WithWatch)
	c.Client = interceptor.NewClient(base, interceptor.Funcs{
		Create: func(ctx context.Context, _ client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if _, ok := o.(*corev1.ConfigMap); !ok {
				return base.Create(ctx, o, options...)
			}
			var requested client.CreateOptions
			requested.ApplyOptions(options)
			if err := cmp.Or(ctx.Err(), r.tries); err != nil {
				return err
			}
			if len(requested.DryRun) > 0 {
				return base.Get(ctx, client.ObjectKeyFromObject(o), &corev1.ConfigMap{}) // accepted; only the name exists
			}
			if len(r.creates) > 0 {
				err := r.creates[0]
				r.creates = r.creates[1:]
				if err != nil {
					return err
				}
			}
			return base.Create(ctx, o, options...)
		},
		Delete: func(ctx context.Context, _ client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			err := base.Delete(ctx, o, options...)
			if _, ok := o.(*corev1.ConfigMap); ok && r.ends != nil {
				r.ends()
			}
			return err
		},
	})
}

// setNoProxy changes the settings and, with a password, the secrets.
func setNoProxy(t *testing.T, c *Controller, password string) {
	t.Helper()
	var config v1alpha1.WindowsConfig
	if err := c.Live.Get(t.Context(), types.NamespacedName{Name: api.WindowsConfigName}, &config); err != nil {
		t.Fatal(err)
	}
	config.Spec.Proxy.HTTPProxy, config.Spec.Proxy.NoProxy = "http://me:"+password+"@proxy:3128", password+".example.com"
	if err := c.Client.Update(t.Context(), &config); err != nil {
		t.Fatal(err)
	}
}

// TestRejectedSettingsKeepPublishedOnes: hosts can join with the old settings, for whatever reason the API server refuses the new
// ones.
func TestRejectedSettingsKeepPublishedOnes(t *testing.T) {
	quota := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "windows-services-x", errors.New("exceeded quota"))
	away := apierrors.NewServiceUnavailable("etcd is away")
	for name, test := range map[string]struct {
		refusing
		want string // of the error
	}{
		"a quota, a webhook, an API server that is away": {refusing{tries: quota}, "dry-running the replacement, old one kept"},
		"refused after a try that went well":             {refusing{creates: []error{quota}}, "the old one was restored"},
		"an API server that answers no more":             {refusing{creates: []error{away, nil}}, "the old one was restored"},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := newTestSettings(t, controllertest.SigningSecret(t, 0))
			setNoProxy(t, c, "one")
			mustReconcile(t, c)
			first := publishedNow(t, c)
			whole := c.Client
			setNoProxy(t, c, "two")
			server := test.refusing
			useRefusingServer(c, &server)
			_, err := c.Reconcile(t.Context(), reconcile.Request{})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want %q", err, test.want)
			}
			got := publishedNow(t, c)
			if fmt.Sprint(got.Data) != fmt.Sprint(first.Data) || got.Immutable == nil || !*got.Immutable || got.Annotations[api.AnnotationSettings] != first.Annotations[api.AnnotationSettings] {
				t.Errorf("published is %v", got)
			}
			if server.tries != nil {
				if _, err := c.Store.Read(t.Context(), controllertest.Version(c.Renderer.Releases), controllertest.ClusterID); err != nil {
					t.Errorf("hosts cannot join: %v", err)
				}
			}
			c.Client = whole
			mustReconcile(t, c)
			want, err := c.Store.Read(t.Context(), controllertest.Version(c.Renderer.Releases), controllertest.ClusterID)
			if err != nil || !strings.Contains(want.Node.Environment["NO_PROXY"], "two.example.com") {
				t.Errorf("afterwards, nodes get %v (%v)", want.Node.Environment, err)
			}
		})
	}
}

// TestInterruptedReplacementIsCompleted: the operator or the API server stops between deletion and creation.
func TestInterruptedReplacementIsCompleted(t *testing.T) {
	for name, cut := range map[string]func(r *refusing, end context.CancelFunc){
		"operator stops": func(r *refusing, end context.CancelFunc) { r.ends = end },
		"API server is unavailable": func(r *refusing, _ context.CancelFunc) {
			r.ends = func() { r.tries = apierrors.NewServiceUnavailable("away") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := newTestSettings(t, controllertest.SigningSecret(t, 0))
			mustReconcile(t, c)
			whole, first := c.Client, publishedNow(t, c)
			setNoProxy(t, c, "two")
			ctx, end := context.WithCancel(t.Context())
			defer end()
			var server refusing
			cut(&server, end)
			useRefusingServer(c, &server)
			_, _ = c.Reconcile(ctx, reconcile.Request{})
			options := c.Options
			options.Client, options.Registry = whole, prometheus.NewRegistry()
			again := New(options) // another process, without state
			mustReconcile(t, again)
			now, err := testSigner(0).verify(publishedNow(t, again))
			before, errWas := testSigner(0).verify(first)
			if err := errors.Join(err, errWas); err != nil || now <= before {
				t.Errorf("serial %d follows %d (%v)", now, before, err)
			}
		})
	}
}

// TestForeignConfigMapIsNotRestored: a ConfigMap that the operator did not sign is not worth restoring.
func TestForeignConfigMapIsNotRestored(t *testing.T) {
	c, _ := newTestSettings(t, controllertest.SigningSecret(t, 0))
	mustReconcile(t, c)
	forged := publishedNow(t, c)
	forged.Data = controllertest.SignedBy(t, 1, forged.Name, forged.Data)
	putBack(t, c, forged)
	server := &refusing{creates: []error{errors.New("no")}}
	useRefusingServer(c, server)
	if _, err := c.Reconcile(t.Context(), reconcile.Request{}); err == nil {
		t.Error("got no error")
	}
	if err := c.Live.Get(t.Context(), client.ObjectKeyFromObject(forged), &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
		t.Errorf("the forged one is there (%v)", err)
	}
}

// TestOversizedBundleIsReported: a ConfigMap holds at most 1 MiB, and so do the settings. Nothing is written, and the condition names the source
// of the bundle.
func TestOversizedBundleIsReported(t *testing.T) {
	c, _ := newTestSettings(t, controllertest.SigningSecret(t, 0))
	setNoProxy(t, c, "one")
	mustReconcile(t, c)
	first := publishedNow(t, c)
	setNoProxy(t, c, "two")
	var bundle strings.Builder
	for i := range 850 {
		bundle.WriteString(noisy(t, i))
	}
	if err := c.Client.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: api.TrustedCAConfigMap}, Data: map[string]string{api.TrustedCAKey: bundle.String()},
	}); err != nil {
		t.Fatal(err)
	}
	mustReconcile(t, c) // nothing to retry before the next edit
	if got := publishedNow(t, c); fmt.Sprint(got.Data) != fmt.Sprint(first.Data) {
		t.Errorf("published is %v", got.Data)
	}
	if _, err := c.Store.Read(t.Context(), controllertest.Version(c.Renderer.Releases), controllertest.ClusterID); err != nil {
		t.Errorf("hosts cannot join: %v", err)
	}
	var config v1alpha1.WindowsConfig
	if err := c.Live.Get(t.Context(), types.NamespacedName{Name: api.WindowsConfigName}, &config); err != nil {
		t.Fatal(err)
	}
	reported := meta.FindStatusCondition(config.Status.Conditions, api.ConditionPublished)
	if reported == nil || reported.Reason != api.ReasonSettingsInvalid || !strings.Contains(reported.Message, "certificates come from ConfigMap trusted-ca, key ca-bundle.crt: ") {
		t.Errorf("the condition is %+v", reported)
	}
}

// TestOtherVersionsGetSSHKeyInTheirFormat: nodes of other versions read only the data keys that their own operator wrote.
func TestOtherVersionsGetSSHKeyInTheirFormat(t *testing.T) {
	c, recorder := newTestSettings(t)
	for name, test := range map[string]struct {
		room int // free bytes in what is published
		gets bool
	}{"there is room": {4000, true}, "there is none": {0, false}} {
		t.Run(name, func(t *testing.T) {
			used := len("certificates")
			for key, value := range desired.Unsigned(controllertest.PublishedFor(t, "1", func(*desired.Node) {}).Data) {
				used += len(key) + len(value)
			}
			certificates := filled(t, 1<<20-1<<10-used-test.room)
			before := controllertest.PublishedFor(t, "1", func(n *desired.Node) { n.Certificates = certificates })
			node, ok := c.publishedIn(before, testSigner(0))
			if !ok {
				t.Fatal("the ConfigMap is not recognized as the operator's")
			}
			recorder.Events = nil
			if err := c.Client.Create(t.Context(), before.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Client.Delete(context.Background(), before) })
			if err := c.publishKeys(t.Context(), before, node, []string{"ssh-ed25519 " + strings.Repeat("A", 100)}, nil, testSigner(0)); err != nil {
				t.Fatal(err)
			}
			var got corev1.ConfigMap
			if err := c.Live.Get(t.Context(), client.ObjectKeyFromObject(before), &got); err != nil {
				t.Fatal(err)
			}
			again, err := desired.FromData(got.Data)
			if err != nil || got.Data["certificates"] != before.Data["certificates"] || (len(again.AuthorizedKeys) > 0) != test.gets {
				t.Errorf("keys %q, certificates as before: %v (%v)", again.AuthorizedKeys, got.Data["certificates"] == before.Data["certificates"], err)
			}
			if reported := strings.Contains(strings.Join(recorder.Events, "\n"), "do not get the SSH key"); reported == test.gets {
				t.Errorf("events %q", recorder.Events)
			}
		})
	}
}

// filled returns certificates of n bytes in total, or a few less.
func filled(t *testing.T, n int) string {
	t.Helper()
	item := authority(t, "filling", time.Now().AddDate(1, 0, 0))
	text := strings.Repeat(item, n/len(item)-1)
	last := ""
	for name := "x"; len(text)+len(last) <= n; name += "x" {
		if next := authority(t, name, time.Now().AddDate(1, 0, 0)); len(text)+len(next) <= n {
			last = next
			continue
		}
		break
	}
	return text + last
}

// noisy returns a certificate of some 2,200 bytes that hardly compresses.
func noisy(t *testing.T, n int) string {
	t.Helper()
	var noise []byte
	for len(noise) < 1400 {
		sum := sha256.Sum256(fmt.Append(noise, n))
		noise = append(noise, sum[:]...)
	}
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: fmt.Sprint(n)}, SubjectKeyId: noise, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().AddDate(-1, 0, 0), NotAfter: time.Now().AddDate(1, 0, 0),
	}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
