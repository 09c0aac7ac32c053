//go:build linux

package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// TestOpenShift installs the operator on an OpenShift cluster, with OpenShift's own definitions of all objects that it reads. It changes each object as
// administrators and OpenShift's operators do, and checks that nodes apply the change.
func TestOpenShift(t *testing.T) {
	p := newHarness(t, testenv.Options{OpenShift: "None"})
	all := []joiningHost{p.addHost("openshift-0", nil), p.addHost("openshift-1", nil)}
	for _, j := range all {
		p.expectAlive(j)
	}
	for _, test := range []struct {
		name string
		test func(harness, []joiningHost)
	}{
		{"AuthoritiesOfTheCluster", injectedAuthorities},
		{"AuthoritiesOfRegistries", registryAuthorities},
		{"Proxy", openshiftProxy},
		{"MirrorSets", mirrorSets},
		{"RegistrySources", registrySources},
		{"TLSSecurityProfile", tlsProfile},
	} {
		t.Run(test.name, func(t *testing.T) { test.test(p.withT(t), all) })
	}
}

// injectedAuthorities checks the certificates that the operator requests and OpenShift's network operator writes.
func injectedAuthorities(p harness, all []joiningHost) {
	eventuallyOf(p, "ConfigMap trusted-ca is filled", operatorObject(api.TrustedCAConfigMap), func(cm *corev1.ConfigMap) string {
		if cm.Labels[api.LabelInjectTrustedCA] != "true" || cm.Data[api.TrustedCAKey] == "" {
			return fmt.Sprintf("got labels %v and %d bytes", cm.Labels, len(cm.Data[api.TrustedCAKey]))
		}
		return ""
	})
	p.expectCertificates(all, 1)
}

func (p harness) expectCertificates(all []joiningHost, n int) {
	p.t.Helper()
	p.eventually(fmt.Sprintf("%d certificates are trusted", n), func(ctx context.Context) string {
		for _, j := range all {
			list, err := j.Windows().Host().Certificates.List(ctx)
			if err != nil || len(list) != n {
				return fmt.Sprintf("host %s trusts %q (%v)", j.at.Name, list, err)
			}
		}
		return ""
	})
}

// registryAuthorities checks the certificates in ControllerConfig, to which the machine-config operator copies those of images.config.
func registryAuthorities(p harness, all []joiningHost) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(p.t, err)
	authority, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "registry.example"}, key)
	must(p.t, err)
	bundle := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: authority.Raw}))
	const object = "machineconfiguration.openshift.io/v1 ControllerConfig machine-config-controller"
	p.patch(object, "spec: {imageRegistryBundleUserData: [{file: registry.example..5000, data: "+bundle+"}]}")
	p.expectCertificates(all, 2)
	p.patch(object, "spec: {imageRegistryBundleUserData: []}")
	p.expectCertificates(all, 1)
}

// openshiftProxy writes the administrator's fields, and those that the network operator derives from them.
func openshiftProxy(p harness, all []joiningHost) {
	const object = "config.openshift.io/v1 Proxy cluster"
	p.patch(object, "spec: {httpsProxy: 'http://proxy.example:3128', noProxy: .corp.example}")
	p.patchStatus(object, "status: {httpsProxy: 'http://proxy.example:3128', noProxy: '.cluster.local,.corp.example,.svc,10.128.0.0/14'}")
	p.expectArrived(all)
	p.eventually("services have the proxy", func(context.Context) string {
		for _, j := range all {
			got := j.Windows().Service("containerd").Environment
			if got["HTTPS_PROXY"] != "http://proxy.example:3128" || !strings.HasPrefix(got["NO_PROXY"], ".cluster.local,.corp.example,") {
				return fmt.Sprintf("host %s: %v", j.at.Name, got)
			}
		}
		return ""
	})
	p.patchStatus(object, "status: {httpsProxy: null, noProxy: null}")
	p.eventually("services have no proxy", func(context.Context) string {
		for _, j := range all {
			if got := j.Windows().Service("containerd").Environment; len(got) > 0 {
				return fmt.Sprintf("host %s: %v", j.at.Name, got)
			}
		}
		return ""
	})
	p.expectArrived(all)
}

// mirrorSets applies the mirror sets of the documents, which oc-mirror also writes.
func mirrorSets(p harness, all []joiningHost) {
	p.create(parse(p.t, `
apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSet
metadata: {name: idms}
spec:
  imageDigestMirrors:
  - mirrors: [mirror.example:5000/example/ubi-minimal]
    source: registry.access.redhat.com/ubi9/ubi-minimal
    mirrorSourcePolicy: NeverContactSource
`))
	p.create(parse(p.t, `
apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSet
metadata: {name: itms}
spec:
  imageTagMirrors:
  - mirrors: [mirror.example:5000/oss/kubernetes]
    source: mcr.microsoft.com/oss/kubernetes
`))
	for _, registry := range []string{"registry.access.redhat.com", "mcr.microsoft.com"} {
		p.eventually("containerd has mirrors of "+registry, func(context.Context) string {
			for _, j := range all {
				if !j.Windows().Disk().Exists(`C:\k\containerd\registries\` + registry + `\hosts.toml`) {
					return "host " + j.at.Name + " has no hosts.toml"
				}
			}
			return ""
		})
	}
	p.expectArrived(all)
}

// registrySources changes the registry sources of images.config. containerd must pull from WICD instead of a blocked registry.
func registrySources(p harness, all []joiningHost) {
	const object, hosts = "config.openshift.io/v1 Image cluster", `C:\k\containerd\registries\blocked.example\hosts.toml`
	expect := func(isBlocked bool) {
		p.t.Helper()
		p.eventually(fmt.Sprintf("blocked.example is blocked: %t", isBlocked), func(context.Context) string {
			for _, j := range all {
				text, err := j.Windows().Disk().Read(hosts)
				if ok := err == nil && !strings.Contains(string(text), "https://blocked.example"); ok != isBlocked {
					return fmt.Sprintf("host %s: %t", j.at.Name, ok)
				}
			}
			return ""
		})
	}
	p.patch(object, "spec: {registrySources: {blockedRegistries: [blocked.example], insecureRegistries: ['*.insecure.example']}}")
	expect(true)
	p.patch(object, "spec: {registrySources: null}")
	expect(false)
	p.expectArrived(all)
}

// tlsProfile changes the cluster's TLS security profile. Kubelets restart to apply it.
func tlsProfile(p harness, all []joiningHost) {
	const object = "config.openshift.io/v1 APIServer cluster"
	expect := func(version string, suites int) {
		p.t.Helper()
		p.eventually("kubelets offer "+version, func(context.Context) string {
			for _, j := range all {
				text, err := j.Windows().Disk().Read(`C:\k\kubelet.conf`)
				if err != nil {
					return err.Error()
				}
				var got struct {
					TLSMinVersion   string
					TLSCipherSuites []string
				}
				if err := json.Unmarshal(text, &got); err != nil {
					return err.Error()
				}
				if got.TLSMinVersion != version || len(got.TLSCipherSuites) != suites {
					return fmt.Sprintf("host %s: %+v", j.at.Name, got)
				}
			}
			return ""
		})
	}
	expect("VersionTLS12", 6)
	p.patch(object, "spec: {tlsSecurityProfile: {type: Custom, custom: {ciphers: [ECDHE-RSA-AES128-GCM-SHA256], minTLSVersion: VersionTLS12}}}")
	expect("VersionTLS12", 1)
	p.patch(object, "spec: {tlsSecurityProfile: {type: Modern, modern: {}, custom: null}}")
	expect("VersionTLS13", 0)
	p.expectArrived(all)
	p.patch(object, "spec: {tlsSecurityProfile: null}")
	expect("VersionTLS12", 6)
}

// checkTLS connects to a real kubelet with TLS 1.2 under the default profile and under Modern.
func (p harness) checkTLS(host *lab.Host) {
	const object = "config.openshift.io/v1 APIServer cluster"
	dial := func(version uint16) error {
		c, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MaxVersion: version}}).
			DialContext(p.t.Context(), "tcp", net.JoinHostPort(host.Address(), "10250"))
		if err == nil {
			err = c.Close()
		}
		return err
	}
	expectAccepted := func(what string, version uint16) {
		p.t.Helper()
		p.eventually(what, func(context.Context) string { // just after its start the kubelet has no certificate
			if err := dial(version); err != nil {
				return err.Error()
			}
			return ""
		})
	}
	expectAccepted("with the default profile, the kubelet accepts TLS 1.2", tls.VersionTLS12)
	p.patch(object, "spec: {tlsSecurityProfile: {type: Modern, modern: {}}}")
	p.eventually("with profile Modern, the kubelet rejects TLS 1.2", func(context.Context) string {
		if err := dial(tls.VersionTLS12); err == nil || !strings.Contains(err.Error(), "protocol version not supported") {
			return fmt.Sprintf("got error %v", err)
		}
		return ""
	})
	expectAccepted("with profile Modern, the kubelet accepts TLS 1.3", tls.VersionTLS13)
}

// patch changes an object, given as "apiVersion kind name", like oc patch --type=merge.
func (p harness) patch(object, change string) {
	p.t.Helper()
	o, patch := patchOf(p.t, object, change)
	must(p.t, p.Client.Patch(p.t.Context(), o, patch))
}

// patchStatus changes the status of an object, as OpenShift's operators do.
func (p harness) patchStatus(object, change string) {
	p.t.Helper()
	o, patch := patchOf(p.t, object, change)
	must(p.t, p.Client.Status().Patch(p.t.Context(), o, patch))
}

func patchOf(t *testing.T, object, change string) (*unstructured.Unstructured, client.Patch) {
	t.Helper()
	words := strings.Fields(object)
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(words[0])
	o.SetKind(words[1])
	o.SetName(words[2])
	patch, err := yaml.YAMLToJSON([]byte(change))
	must(t, err)
	return o, client.RawPatch(types.MergePatchType, patch)
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	must(t, yaml.Unmarshal([]byte(text), &o.Object))
	return o
}
