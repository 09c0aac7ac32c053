//go:build linux

package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// TestSettings changes settings of all nodes, and checks that each node applies them without SSH, drain or reboot.
func TestSettings(t *testing.T) {
	p := newHarness(t, testenv.Options{})
	var all []joiningHost
	for n := range 4 {
		all = append(all, p.addHost(fmt.Sprintf("settings-%d", n), nil))
	}
	for _, j := range all {
		p.expectAlive(j)
	}
	tests := []struct {
		name string
		test func(harness, []joiningHost)
	}{
		{"ProxyIsSetAndRemoved", proxyChanges},
		{"InvalidProxyIsNotPublished", proxyBroken},
		{"CertificatesAreTrusted", certificatesChange},
		{"MirrorsAndCredentialsAreWritten", mirrorsChange},
		{"KubeletSettingsRestartOnlyKubelets", kubeletChanges},
		{"PublishedObjectsAreRestored", publishedRestored},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := p.withT(t)
			before := p.hostStates()
			connections := connectionsOf(all)
			test.test(p, all)
			for name, got := range p.hostStates() {
				if previous := before[name]; got.boot != previous.boot || got.pids[api.WICDService] != previous.pids[api.WICDService] {
					t.Errorf("host %s or WICD was restarted: got processes %+v, want %+v", name, got.pids, previous.pids)
				}
			}
			if now := connectionsOf(all); now != connections {
				t.Errorf("got %d SSH connections, want 0", now-connections)
			}
			p.expectNothingCordoned()
		})
	}
}

func connectionsOf(all []joiningHost) (n int) {
	for _, j := range all {
		n += j.SSH().Counters().Connections
	}
	return n
}

// configure changes WindowsConfig.
func (p harness) configure(change func(*v1alpha1.WindowsConfigSpec)) {
	p.t.Helper()
	must(p.t, p.Change(p.t.Context(), change))
}

func (p harness) config() *v1alpha1.WindowsConfig {
	p.t.Helper()
	var config v1alpha1.WindowsConfig
	p.get(types.NamespacedName{Name: api.WindowsConfigName}, &config)
	return &config
}

// expectArrived waits until every node reports the published settings, and WindowsConfig counts all nodes as updated.
func (p harness) expectArrived(all []joiningHost) {
	p.t.Helper()
	p.eventually("all nodes have the published settings", func(ctx context.Context) string {
		config := p.config()
		published := meta.FindStatusCondition(config.Status.Conditions, api.ConditionPublished)
		if config.Status.ObservedGeneration != config.Generation || published == nil || published.Status != metav1.ConditionTrue {
			return fmt.Sprintf("got status %+v", config.Status)
		}
		if config.Status.UpdatedNodes != int32(len(all)) || config.Status.Nodes != int32(len(all)) {
			return fmt.Sprintf("%d of %d nodes have settings %s", config.Status.UpdatedNodes, config.Status.Nodes, config.Status.Settings)
		}
		for _, j := range all {
			var node corev1.Node
			if err := p.Client.Get(ctx, types.NamespacedName{Name: j.at.Name}, &node); err != nil {
				return err.Error()
			}
			if got := node.Annotations[api.AnnotationSettings]; got != config.Status.Settings {
				return fmt.Sprintf("node %s has settings %s, want %s", node.Name, got, config.Status.Settings)
			}
		}
		return ""
	})
}

func (p harness) expectNothingCordoned() {
	p.t.Helper()
	var nodes corev1.NodeList
	must(p.t, p.Client.List(p.t.Context(), &nodes))
	for _, n := range nodes.Items {
		if n.Spec.Unschedulable {
			p.t.Errorf("node %s is cordoned", n.Name)
		}
	}
}

const secretProxy = "http://me:pass-word@proxy.example:3128"

func proxyChanges(p harness, all []joiningHost) {
	before := p.hostStates()
	p.configure(func(s *v1alpha1.WindowsConfigSpec) {
		s.Proxy = v1alpha1.ProxySpec{HTTPProxy: secretProxy, HTTPSProxy: "http://proxy.example:3128", NoProxy: "example.org"}
	})
	p.expectArrived(all)
	for _, j := range all {
		for _, service := range []string{"containerd", "kubelet"} {
			got := j.Windows().Service(service).Environment
			if got["HTTP_PROXY"] != secretProxy || got["HTTPS_PROXY"] != "http://proxy.example:3128" || !strings.HasPrefix(got["NO_PROXY"], "example.org,") {
				p.t.Errorf("environment of %s on %s: got %v", service, j.at.Name, got)
			}
		}
		if got := j.Windows().Environment(); got["HTTP_PROXY"] != "" || got["HTTPS_PROXY"] == "" {
			p.t.Errorf("environment of host %s, which all users can read: got %v, want only HTTPS_PROXY", j.at.Name, got)
		}
	}
	p.expectNoSecret("pass-word")
	for name, got := range p.hostStates() {
		if previous := before[name]; got.pids["containerd"] == previous.pids["containerd"] || got.pids["kubelet"] == previous.pids["kubelet"] {
			p.t.Errorf("host %s: services that read the proxy were not restarted: got %v, before %v", name, got.pids, previous.pids)
		}
	}
	p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Proxy = v1alpha1.ProxySpec{} })
	p.expectArrived(all)
	for _, j := range all {
		if got := j.Windows().Service("containerd").Environment; len(got) > 0 || j.Windows().Environment()["HTTPS_PROXY"] != "" {
			p.t.Errorf("host %s still has a proxy: %v, %v", j.at.Name, got, j.Windows().Environment())
		}
	}
}

// expectNoSecret checks that a secret is not in ConfigMaps, logs and journals.
func (p harness) expectNoSecret(secret string) {
	p.t.Helper()
	var maps corev1.ConfigMapList
	must(p.t, p.Client.List(p.t.Context(), &maps))
	for _, cm := range maps.Items {
		for key, value := range cm.Data {
			if strings.Contains(value, secret) {
				p.t.Errorf("ConfigMap %s, key %s contains a secret", cm.Name, key)
			}
		}
	}
	if strings.Contains(p.Operator.Log(), secret) {
		p.t.Error("the operator's log contains a secret")
	}
	for _, h := range p.Simulated() {
		for _, name := range []string{`C:\k\state\journal.jsonl`, `C:\var\log\wicd\wicd.log`} {
			if text, err := h.Windows().Disk().Read(name); err == nil && strings.Contains(string(text), secret) {
				p.t.Errorf("%s contains a secret", name)
			}
		}
	}
}

func proxyBroken(p harness, all []joiningHost) {
	got := p.config().Status.Settings
	p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Proxy.HTTPProxy = "socks5://proxy.example" })
	p.eventually("the invalid proxy is reported", func(context.Context) string {
		c := meta.FindStatusCondition(p.config().Status.Conditions, api.ConditionPublished)
		if c == nil || c.Reason != api.ReasonSettingsInvalid || !strings.Contains(c.Message, "spec.proxy.httpProxy") {
			return fmt.Sprintf("got condition %+v", c)
		}
		return ""
	})
	if now := p.config().Status.Settings; now != got {
		p.t.Errorf("published settings: got %s, want %s as before", now, got)
	}
	p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Proxy = v1alpha1.ProxySpec{} })
	p.expectArrived(all)
}

func certificatesChange(p harness, all []joiningHost) {
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: api.TrustedCAConfigMap},
		Data:       map[string]string{api.TrustedCAKey: string(p.Lab.ControlPlane.CA()) + "-----BEGIN CERTIFICATE-----\nbroken\n-----END CERTIFICATE-----\n"},
	}
	p.create(cm)
	p.expectCertificates(all, 1)
	p.expectEvent(api.TrustedCAConfigMap, api.EventSettingsIgnored, "ConfigMap trusted-ca", "line ")
	p.remove(cm)
	p.expectCertificates(all, 0)
	p.expectArrived(all)
}

// mirrorsChange adds a mirror that requires a password, and removes it. No service may restart.
func mirrorsChange(p harness, all []joiningHost) {
	before := p.hostStates()
	const hosts, credentials = `C:\k\containerd\registries\mcr.microsoft.com\hosts.toml`, `C:\var\lib\kubelet\config.json`
	p.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: api.PullSecret}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{"mirror.example":{"username":"me","password":"pass-word"}}}`)},
	})
	p.configure(func(s *v1alpha1.WindowsConfigSpec) {
		s.Registries.Mirrors = []v1alpha1.RegistryMirrors{
			{Source: "mcr.microsoft.com", Mirrors: []v1alpha1.RegistryMirror{{Location: "mirror.example/microsoft"}}},
			{Source: "quay.io/team", Mirrors: []v1alpha1.RegistryMirror{{Location: "http://mirror.example/other"}}},
		}
	})
	p.expectArrived(all)
	basic := base64.StdEncoding.EncodeToString([]byte("me:pass-word"))
	expect := func(name string, parts ...string) {
		p.t.Helper()
		p.eventually(name+" is on all hosts", func(context.Context) string {
			for _, j := range all {
				if text, err := j.Windows().Disk().Read(name); err != nil || !containsAll(string(text), parts) {
					return fmt.Sprintf("host %s: %d bytes (%v)", j.at.Name, len(text), err)
				}
			}
			return ""
		})
	}
	expect(hosts, "https://127.0.0.1:10280", "wicd-client.pem")
	expect(credentials, "mirror.example")
	p.expectEvent(api.WindowsConfigName, api.EventSettingsIgnored, "spec.registries.mirrors[1].mirrors[0]", "http://")
	for _, j := range all {
		p.expectNoSecret(keyOf(p, j))
	}
	p.expectNoSecret("pass-word")
	p.expectNoSecret(basic)
	p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Registries = v1alpha1.RegistriesSpec{} })
	p.remove(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: api.PullSecret}})
	p.eventually("the files are removed", func(context.Context) string {
		for _, j := range all {
			if disk := j.Windows().Disk(); disk.Exists(hosts) || disk.Exists(credentials) {
				return "host " + j.at.Name + " still has them"
			}
		}
		return ""
	})
	p.expectArrived(all)
	for name, got := range p.hostStates() {
		if !maps.Equal(before[name].pids, got.pids) {
			p.t.Errorf("processes of host %s: got %v, want %v", name, got.pids, before[name].pids)
		}
	}
}

// keyOf returns the private key that a host created for its containerd, without the part that all keys share.
func keyOf(p harness, j joiningHost) string {
	p.t.Helper()
	text, err := j.Windows().Disk().Read(`C:\k\containerd\wicd-client.pem`)
	must(p.t, err)
	return keyIn(p.t, string(text))
}

// keyIn returns the first line of the private key in a PEM file.
func keyIn(t *testing.T, text string) string {
	t.Helper()
	_, key, found := strings.Cut(text, "-----BEGIN PRIVATE KEY-----\n")
	if !found || len(key) < 64 {
		t.Fatal("the file has no private key")
	}
	return key[:64]
}

func kubeletChanges(p harness, all []joiningHost) {
	before := p.hostStates()
	p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Kubelet.MaxPods = 77 })
	p.expectArrived(all)
	for name, got := range p.hostStates() {
		if previous := before[name]; got.pids["kubelet"] == previous.pids["kubelet"] || got.pids["containerd"] != previous.pids["containerd"] {
			p.t.Errorf("processes of host %s: got %v, want only another kubelet than %v", name, got.pids, previous.pids)
		}
	}
	for _, j := range all {
		if text, err := j.Windows().Disk().Read(`C:\k\kubelet.conf`); err != nil || !strings.Contains(string(text), `"maxPods": 77`) {
			p.t.Errorf("kubelet configuration of host %s lacks maxPods 77 (%v): %s", j.at.Name, err, text)
		}
	}
}

// publishedRestored deletes all published objects, and checks that they are restored while nodes stay unchanged. Objects that nodes apply can be deleted
// only with the operator's permissions.
func publishedRestored(p harness, all []joiningHost) {
	p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Proxy.HTTPProxy = secretProxy })
	p.expectArrived(all)
	before := p.hostStates()
	meta := metav1.ObjectMeta{Namespace: api.DefaultNamespace}
	named := func(name string) metav1.ObjectMeta { meta.Name = name; return meta }
	version := p.reported(all[0].at.Name)
	applied := &corev1.ConfigMap{ObjectMeta: named(api.ServicesConfigMapPrefix + version)}
	if err := p.Client.Delete(p.t.Context(), applied); err == nil || !strings.Contains(err.Error(), "only the operator writes it") {
		p.t.Fatalf("deleting ConfigMap %s as administrator: %v, want it denied", applied.Name, err)
	}
	for object, by := range map[client.Object]client.Client{
		applied: p.asOperator(),
		&rbacv1.Role{ObjectMeta: named(api.WICDRole)}:      p.Client,
		&corev1.Secret{ObjectMeta: named(api.NodeSecrets)}: p.Client,
	} {
		must(p.t, by.Delete(p.t.Context(), object))
		p.eventually(fmt.Sprintf("%T %s is restored", object, object.GetName()), func(ctx context.Context) string {
			if err := p.Client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
				return err.Error()
			}
			return ""
		})
		p.expectArrived(all) // new secrets have another hash, so the settings are published again
	}
	for name, got := range p.hostStates() {
		if !maps.Equal(before[name].pids, got.pids) {
			p.t.Errorf("processes of host %s: got %v, want %v", name, got.pids, before[name].pids)
		}
	}
	p.configure(func(s *v1alpha1.WindowsConfigSpec) {
		s.Proxy = v1alpha1.ProxySpec{}
		s.Kubelet = v1alpha1.KubeletSpec{}
	})
	p.expectArrived(all)
	if slices.ContainsFunc(all, func(j joiningHost) bool { return len(j.Windows().Service("containerd").Environment) > 0 }) {
		p.t.Error("a host still has a proxy")
	}
}
