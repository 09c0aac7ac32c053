package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
	"github.com/windows-machine-config/wmco/internal/shared/proxy"
	"github.com/windows-machine-config/wmco/internal/shared/tlsprofile"
	"github.com/windows-machine-config/wmco/internal/shared/trust"
)

func now() time.Time { return time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC) }

// Builders of OpenShift's objects, with content from YAML.

func proxyOf(manifest string) client.Object {
	return openshift(openshiftConfig, "Proxy", "cluster", manifest)
}

func network(manifest string) client.Object {
	return openshift(openshiftConfig, "Network", "cluster", manifest)
}

func controllerConfig(manifest string) client.Object {
	return openshift(machineConfig, "ControllerConfig", "machine-config-controller", manifest)
}

func digests(name, manifest string) client.Object {
	return openshift(openshiftConfig, digestSet, name, manifest)
}

func tags(name, manifest string) client.Object {
	return openshift(openshiftConfig, tagSet, name, manifest)
}

func kubeadm(manifest string) client.Object {
	return configMap("kube-system", "kubeadm-config", "ClusterConfiguration", manifest)
}

func trusted(pem string) client.Object {
	return configMap(namespace, api.TrustedCAConfigMap, api.TrustedCAKey, pem)
}

func pullSecret(namespace, key, value string) client.Object {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: api.PullSecret}, Data: map[string][]byte{key: []byte(value)},
	}
}

// users returns a WindowsConfig with all settings that OpenShift may have in other objects.
func users() v1alpha1.WindowsConfigSpec {
	return v1alpha1.WindowsConfigSpec{
		Proxy: v1alpha1.ProxySpec{HTTPProxy: "http://users", HTTPSProxy: "https://users", NoProxy: "users"},
		Registries: v1alpha1.RegistriesSpec{Mirrors: []v1alpha1.RegistryMirrors{
			{Source: "users.example", Mirrors: []v1alpha1.RegistryMirror{{Location: "b.example"}, {Location: "a.example"}}},
		}},
	}
}

// usersProxy and usersMirrors are the settings of users if no other object takes precedence.
func usersProxy() proxy.Config {
	return proxy.Config{
		Object: `WindowsConfig "cluster"`, Path: "spec.proxy", HTTPProxy: "http://users", HTTPSProxy: "https://users", NoProxy: "users",
	}
}

func usersMirrors() []mirrors.Set {
	return []mirrors.Set{{Kind: "WindowsConfig", Name: "cluster", Field: "spec.registries.mirrors", Entries: []mirrors.Entry{
		{Source: "users.example", Mirrors: []mirrors.Mirror{{Location: "b.example"}, {Location: "a.example"}}},
	}}}
}

// onlyUsers returns the settings of a cluster that has only those of users.
func onlyUsers() desired.Settings {
	return desired.Settings{Now: now(), Proxy: usersProxy(), Registries: mirrors.Input{Sets: usersMirrors()}}
}

func bundle(name, pem string) trust.Bundle { return trust.Bundle{Name: name, PEM: pem} }

// settingsCase is a cluster, and how its settings differ from onlyUsers.
type settingsCase struct {
	objects []client.Object
	change  func(*desired.Settings)
}

func profileCases() map[string]settingsCase {
	offers := func(p tlsprofile.Profile) func(*desired.Settings) {
		return func(s *desired.Settings) { s.TLS = new(p.Server()) }
	}
	manifest := func(spec string) []client.Object {
		return []client.Object{openshift(openshiftConfig, "APIServer", "cluster", "spec: "+spec)}
	}
	return map[string]settingsCase{
		"TLS: default on OpenShift":               {manifest("{audit: {profile: Default}}"), offers(tlsprofile.Profile{})},
		"TLS: no profile":                         {manifest("{tlsSecurityProfile: null}"), offers(tlsprofile.Profile{})},
		"TLS: profile for legacy components only": {manifest("{tlsSecurityProfile: {type: Modern, modern: {}}, tlsAdherence: LegacyAdheringComponentsOnly}"), offers(tlsprofile.Profile{Type: "Modern"})},
		"TLS: custom profile": {
			manifest("{tlsSecurityProfile: {type: Custom, custom: {ciphers: [ECDHE-RSA-AES128-GCM-SHA256], minTLSVersion: VersionTLS12}}}"),
			offers(tlsprofile.Profile{Type: "Custom", Custom: &tlsprofile.Custom{Ciphers: []string{"ECDHE-RSA-AES128-GCM-SHA256"}, MinTLSVersion: tlsprofile.TLS12}})},
	}
}

func proxyCases() map[string]settingsCase {
	proxyIs := func(http, https, no string) func(*desired.Settings) {
		return func(s *desired.Settings) {
			s.Proxy = proxy.Config{Object: `Proxy "cluster"`, Path: "status", HTTPProxy: http, HTTPSProxy: https, NoProxy: no}
		}
	}
	networksAre := func(cidrs ...string) func(*desired.Settings) {
		return func(s *desired.Settings) { s.Networks = cidrs }
	}
	return map[string]settingsCase{
		"nothing": {nil, func(*desired.Settings) {}},
		"proxy: status": {
			[]client.Object{proxyOf("{spec: {httpProxy: http://not-checked, noProxy: short}, status: {httpProxy: 'http://me:pw@p', httpsProxy: http://q, noProxy: 'a,.b'}}")},
			proxyIs("http://me:pw@p", "http://q", "a,.b")},
		"proxy: one field":                     {[]client.Object{proxyOf("status: {httpsProxy: http://q}")}, proxyIs("", "http://q", "")},
		"proxy: empty overrides WindowsConfig": {[]client.Object{proxyOf("{spec: {}, status: {}}")}, proxyIs("", "", "")},
		"proxy: not in force yet":              {[]client.Object{proxyOf("spec: {httpProxy: http://not-checked}")}, proxyIs("", "", "")},
		"proxy: nulls":                         {[]client.Object{proxyOf("status: {httpProxy: null, noProxy: null}")}, proxyIs("", "", "")},

		"networks: status on OpenShift": {
			[]client.Object{
				network("{spec: {clusterNetwork: [{cidr: 10.1.0.0/16}]}, status: {clusterNetwork: [{cidr: 10.128.0.0/14, hostPrefix: 23}, {cidr: 'fd01::/48'}]}}"),
				kubeadm("networking: {podSubnet: 10.244.0.0/16}"),
			},
			networksAre("10.128.0.0/14", "fd01::/48")},
		"networks: no status on OpenShift": {[]client.Object{network("status: null"), kubeadm("networking: {podSubnet: 10.244.0.0/16}")}, networksAre()},
		"networks: entry without a range": {
			[]client.Object{network("status: {clusterNetwork: [{hostPrefix: 23}, {cidr: ''}, {cidr: null}, {cidr: 10.128.0.0/14}]}")}, networksAre("10.128.0.0/14")},
		"networks: kubeadm":                    {[]client.Object{kubeadm("networking: {podSubnet: 10.244.0.0/16, serviceSubnet: 10.96.0.0/12}")}, networksAre("10.244.0.0/16")},
		"networks: kubeadm, dual stack":        {[]client.Object{kubeadm("networking: {podSubnet: '10.244.0.0/16, fd02::/48,'}")}, networksAre("10.244.0.0/16", "fd02::/48")},
		"networks: kubeadm without networking": {[]client.Object{kubeadm("kind: ClusterConfiguration")}, networksAre()},
		"networks: kubeadm with unknown fields": {
			[]client.Object{kubeadm("{networking: {podSubnet: 10.244.0.0/16, new: [1]}, new: {a: b}}")}, networksAre("10.244.0.0/16")},
	}
}

func trustCases() map[string]settingsCase {
	const (
		ours     = "ConfigMap trusted-ca, key ca-bundle.crt"
		registry = "ControllerConfig machine-config-controller, spec."
	)
	bundlesAre := func(b ...trust.Bundle) func(*desired.Settings) {
		return func(s *desired.Settings) { s.Bundles = b }
	}
	binary := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: api.TrustedCAConfigMap},
		BinaryData: map[string][]byte{api.TrustedCAKey: []byte("\x30\x82\xff")},
	}
	return map[string]settingsCase{
		"trust: bundle":                      {[]client.Object{trusted("PEM")}, bundlesAre(bundle(ours, "PEM"))},
		"trust: empty bundle":                {[]client.Object{trusted("")}, bundlesAre()},
		"trust: bundle without its key":      {[]client.Object{configMap(namespace, api.TrustedCAConfigMap, "other", "PEM")}, bundlesAre()},
		"trust: bundle in another namespace": {[]client.Object{configMap("elsewhere", api.TrustedCAConfigMap, api.TrustedCAKey, "PEM")}, bundlesAre()},
		"trust: binary data":                 {[]client.Object{binary}, bundlesAre(bundle(ours, "\x30\x82\xff"))},
		"trust: authorities of registries": {
			[]client.Object{trusted("PEM"), controllerConfig("spec: {rootCAData: RA==, imageRegistryBundleData: [{file: internal..5000, data: QQ==}], " +
				"imageRegistryBundleUserData: [{file: z, data: Qg==}, {file: a, data: Qw==}]}")},
			bundlesAre(bundle(ours, "PEM"), bundle(registry+"imageRegistryBundleUserData, file z", "B"), bundle(registry+"imageRegistryBundleUserData, file a", "C"),
				bundle(registry+"imageRegistryBundleData, file internal..5000", "A"))},
		"trust: no authorities of registries": {[]client.Object{controllerConfig("spec: {imageRegistryBundleData: null, imageRegistryBundleUserData: []}")}, bundlesAre()},
		"trust: empty authority of a registry": {
			[]client.Object{controllerConfig("spec: {imageRegistryBundleData: [{file: a}, {file: b, data: null}, {file: c, data: ''}, {file: d, data: QQ==}]}")},
			bundlesAre(bundle(registry+"imageRegistryBundleData, file a", ""), bundle(registry+"imageRegistryBundleData, file b", ""),
				bundle(registry+"imageRegistryBundleData, file c", ""), bundle(registry+"imageRegistryBundleData, file d", "A"))},
		"trust: empty ControllerConfig": {[]client.Object{controllerConfig("spec: null")}, bundlesAre()},
	}
}

func registryCases() map[string]settingsCase {
	setsAre := func(sets ...mirrors.Set) func(*desired.Settings) {
		return func(s *desired.Settings) { s.Registries.Sets = sets }
	}
	entry := func(source string, policy mirrors.Policy, byTag bool, locations ...string) mirrors.Entry {
		e := mirrors.Entry{Source: source, Policy: policy, For: mirrors.Digests}
		if byTag {
			e.For = mirrors.Tags
		}
		for _, l := range locations {
			e.Mirrors = append(e.Mirrors, mirrors.Mirror{Location: l})
		}
		return e
	}
	digestSetIs := func(name string, entries ...mirrors.Entry) mirrors.Set {
		return mirrors.Set{Kind: "ImageDigestMirrorSet", Name: name, Field: "spec.imageDigestMirrors", Entries: entries}
	}
	tagSetIs := func(name string, entries ...mirrors.Entry) mirrors.Set {
		return mirrors.Set{Kind: "ImageTagMirrorSet", Name: name, Field: "spec.imageTagMirrors", Entries: entries}
	}
	secretIs := func(name, content string) func(*desired.Settings) {
		return func(s *desired.Settings) {
			s.Registries.PullSecret = mirrors.PullSecret{Name: name, DockerConfigJSON: []byte(content)}
		}
	}
	const key = corev1.DockerConfigJsonKey
	return map[string]settingsCase{
		"mirrors: order and policies are kept": {
			[]client.Object{
				digests("b", "spec: {imageDigestMirrors: [{source: z.io/x, mirrors: [m3, m1, m2], mirrorSourcePolicy: NeverContactSource}, "+
					"{source: a.io, mirrors: [m1], mirrorSourcePolicy: AllowContactingSource}]}"),
				digests("a", "spec: {imageDigestMirrors: [{source: q.io, mirrors: [m1]}]}"),
				tags("b", "spec: {imageTagMirrors: [{source: t.io, mirrors: [m2, m1], mirrorSourcePolicy: Odd}]}"),
			},
			setsAre(digestSetIs("a", entry("q.io", "", false, "m1")),
				digestSetIs("b", entry("z.io/x", "NeverContactSource", false, "m3", "m1", "m2"), entry("a.io", "AllowContactingSource", false, "m1")),
				tagSetIs("b", entry("t.io", "Odd", true, "m2", "m1")))},
		"mirrors: source without mirrors": {
			[]client.Object{digests("a", "spec: {imageDigestMirrors: [{source: q.io, mirrorSourcePolicy: NeverContactSource}]}")},
			setsAre(digestSetIs("a", entry("q.io", "NeverContactSource", false)))},
		"mirrors: empty set overrides WindowsConfig": {[]client.Object{tags("a", "spec: {}")}, setsAre(tagSetIs("a"))},
		"mirrors: nulls": {
			[]client.Object{
				digests("a", "spec: {imageDigestMirrors: null}"),
				digests("b", "spec: {imageDigestMirrors: [{source: q.io, mirrors: null, mirrorSourcePolicy: null}]}"),
			},
			setsAre(digestSetIs("a"), digestSetIs("b", entry("q.io", "", false)))},
		"mirrors: unknown fields": {
			[]client.Object{digests("a", "spec: {new: true, other: [{source: 7}], imageDigestMirrors: [{source: q.io, mirrors: [m1], new: {a: b}}]}")},
			setsAre(digestSetIs("a", entry("q.io", "", false, "m1")))},
		"registries: access rules of OpenShift": {
			[]client.Object{openshift(openshiftConfig, imageConfig, "cluster", "spec: {additionalTrustedCA: {name: x}, registrySources: {allowedRegistries: [a.io, '*.b.io'], "+
				"blockedRegistries: [c.io/x], insecureRegistries: ['d.io:5000'], containerRuntimeSearchRegistries: [e.io]}}")},
			func(s *desired.Settings) {
				at := func(field string, rule mirrors.Rule, scopes ...string) mirrors.Access {
					return mirrors.Access{Kind: "Image", Name: "cluster", Field: "spec.registrySources." + field, Rule: rule, Scopes: scopes}
				}
				s.Registries.Access = []mirrors.Access{
					at("allowedRegistries", mirrors.Allowed, "a.io", "*.b.io"), at("blockedRegistries", mirrors.Rejected, "c.io/x"), at("insecureRegistries", mirrors.Insecure, "d.io:5000"),
				}
			}},
		"registries: release image of OpenShift": {[]client.Object{controllerConfig("spec: {releaseImage: 'q.io/o/release@sha256:1'}")}, func(s *desired.Settings) {
			s.Registries.ReleaseImage = "q.io/o/release@sha256:1"
		}},
		"registries: no access rules of OpenShift": {[]client.Object{openshift(openshiftConfig, imageConfig, "cluster", "spec: {registrySources: null}")}, func(*desired.Settings) {}},
		"pull secret: OpenShift takes precedence": {
			[]client.Object{pullSecret("openshift-config", key, "theirs"), pullSecret(namespace, key, "ours")},
			secretIs("openshift-config/pull-secret", "theirs")},
		"pull secret: namespace of the operator":    {[]client.Object{pullSecret(namespace, key, "ours")}, secretIs("operator/pull-secret", "ours")},
		"pull secret: other namespaces are ignored": {[]client.Object{pullSecret("default", key, "theirs")}, func(*desired.Settings) {}},
		"pull secret: missing key": {
			[]client.Object{pullSecret("openshift-config", "config.json", "theirs"), pullSecret(namespace, key, "ours")},
			secretIs("openshift-config/pull-secret", "")},
	}
}

func TestSettingsAreReadFromOpenShiftOrWindowsConfig(t *testing.T) {
	for _, cases := range []map[string]settingsCase{profileCases(), proxyCases(), trustCases(), registryCases()} {
		for name, test := range cases {
			t.Run(name, func(t *testing.T) {
				want := onlyUsers()
				test.change(&want)
				expectSettings(t, reader(append(plain(), test.objects...)...), want)
			})
		}
	}
}

// TestPullSecretIsReadWherePermitted: the operator may read OpenShift's namespace for settings only on OpenShift.
func TestPullSecretIsReadWherePermitted(t *testing.T) {
	const key = corev1.DockerConfigJsonKey
	forbid := func(objects ...client.Object) client.Reader {
		return interceptor.NewClient(reader(append(plain(), objects...)...), interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, name client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if name.Namespace == "openshift-config" {
					return apierrors.NewForbidden(corev1.Resource("secrets"), name.Name, errors.New("no"))
				}
				return c.Get(ctx, name, o, opts...)
			},
		})
	}
	want := onlyUsers()
	want.Registries.PullSecret = mirrors.PullSecret{Name: "operator/pull-secret", DockerConfigJSON: []byte("ours")}
	expectSettings(t, forbid(pullSecret(namespace, key, "ours")), want)
	if _, err := ReadSettings(t.Context(), forbid(openshift(openshiftConfig, "Infrastructure", "cluster", "")), namespace, users(), now()); err == nil || !strings.Contains(err.Error(), "deploy/openshift") {
		t.Errorf("on OpenShift: error %v, want one with the manifests to apply", err)
	}
}

func expectSettings(t *testing.T, r client.Reader, want desired.Settings) {
	t.Helper()
	got, err := ReadSettings(t.Context(), r, namespace, users(), now())
	if err != nil {
		t.Fatal(err)
	}
	// An existing Secret sets the name; its content may be absent or empty.
	equalBytes := cmp.Comparer(func(a, b []byte) bool { return string(a) == string(b) })
	if diff := cmp.Diff(want, got, equalBytes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAllFieldsOfConfiguredMirrorsAreRead(t *testing.T) {
	config := v1alpha1.WindowsConfigSpec{Registries: v1alpha1.RegistriesSpec{BlockedRegistries: []string{"c.io"}, InsecureRegistries: []string{"*.d.io"}, Mirrors: []v1alpha1.RegistryMirrors{
		{Source: "a.io/x", MirrorSourcePolicy: v1alpha1.NeverContactSource, PullBy: v1alpha1.PullByDigest, Mirrors: []v1alpha1.RegistryMirror{
			{Location: "m2/x", Insecure: true}, {Location: "m1/x", CABundle: "PEM"},
		}},
		{Source: "b.io", MirrorSourcePolicy: v1alpha1.AllowContactingSource, PullBy: v1alpha1.PullByDigestAndTag, Mirrors: []v1alpha1.RegistryMirror{{Location: "m1"}}},
	}}}
	want := []mirrors.Set{{Kind: "WindowsConfig", Name: "cluster", Field: "spec.registries.mirrors", Entries: []mirrors.Entry{
		{Source: "a.io/x", Policy: mirrors.NeverContactSource, For: mirrors.Digests, Mirrors: []mirrors.Mirror{{Location: "m2/x", Insecure: true}, {Location: "m1/x", CA: "PEM"}}},
		{Source: "b.io", Policy: mirrors.AllowContactingSource, Mirrors: []mirrors.Mirror{{Location: "m1"}}},
	}}}
	got, err := ReadSettings(t.Context(), reader(plain()...), namespace, config, now())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.Registries.Sets); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	access := []mirrors.Access{
		{Kind: "WindowsConfig", Name: "cluster", Field: "spec.registries.blockedRegistries", Rule: mirrors.Blocked, Scopes: []string{"c.io"}},
		{Kind: "WindowsConfig", Name: "cluster", Field: "spec.registries.insecureRegistries", Rule: mirrors.Insecure, Scopes: []string{"*.d.io"}},
	}
	if diff := cmp.Diff(access, got.Registries.Access); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRegistryCAsAreReadWithoutProxy covers a bug of the original operator: it read the authorities only if the cluster had a proxy, so that on
// other clusters a registry's new authority reached no node.
func TestRegistryCAsAreReadWithoutProxy(t *testing.T) {
	for name, objects := range map[string][]client.Object{
		"no proxy": plain(), "an empty proxy": append(plain(), proxyOf("status: {}")), "a proxy": append(plain(), proxyOf("status: {httpProxy: http://p}")),
	} {
		for _, field := range []string{"imageRegistryBundleData", "imageRegistryBundleUserData"} {
			for pem, encoded := range map[string]string{"A": "QQ==", "B": "Qg=="} {
				authorities := controllerConfig(fmt.Sprintf("spec: {%s: [{file: a, data: %s}]}", field, encoded))
				got, err := ReadSettings(t.Context(), reader(append(objects, authorities)...), namespace, v1alpha1.WindowsConfigSpec{}, now())
				if err != nil || len(got.Bundles) != 1 || got.Bundles[0].PEM != pem {
					t.Errorf("%s, %s: the bundles are %v (%v), want %s", name, field, got.Bundles, err, pem)
				}
			}
		}
	}
}
