//go:build linux

package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509/pkix"
	"fmt"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

const (
	// hostileHosts attack for hostileFor, while groups of honestHosts join.
	hostileHosts = 32
	honestHosts  = 10
	hostileFor   = 5 * time.Minute
	// invalidRequests is the number of certificate requests that violate a rule.
	invalidRequests = 30_000
	// largePods are in the tenants' namespaces, largeConfigMaps in the operator's: together 1.2 GB, below etcd's default limit of 2 GB.
	largePods, largeConfigMaps = 1000, 150
	tenants                    = 10
)

// measureHostile measures joins of honest hosts, first alone, then while hostile hosts, tenants and nodes flood the operator with data.
func measureHostile(ctx context.Context, s *sheet) error {
	c, err := openSimulation(ctx, s)
	if err != nil {
		return err
	}
	defer c.Close()
	f := fleet{c}
	if _, err := f.joinAll(ctx, honestHosts); err != nil { // warm-up, not measured
		return err
	}
	alone, err := f.repeatJoins(ctx, 0)
	if err != nil {
		return err
	}
	if err := f.fill(ctx); err != nil {
		return err
	}
	if err := f.addHostile(ctx); err != nil {
		return err
	}
	attacked, err := f.repeatJoins(ctx, hostileFor)
	if err != nil {
		return err
	}
	peak, err := f.Operator.PeakMemory()
	if err != nil {
		return err
	}
	f.number("hostile.operator_rss_mb", float64(peak)/1e6, "MB")
	f.number("hostile.honest_join_seconds", median(attacked), "s")
	f.number("hostile.honest_join_ratio", median(attacked)/median(alone), "ratio")
	return nil
}

// repeatJoins joins groups of honest hosts, at least `rounds` times and for at least the given time.
func (f fleet) repeatJoins(ctx context.Context, atLeast time.Duration) (all []float64, err error) {
	for began := time.Now(); len(all) < rounds || time.Since(began) < atLeast; {
		seconds, err := f.joinAll(ctx, honestHosts)
		if err != nil {
			return nil, err
		}
		all = append(all, seconds)
		if atLeast > 0 {
			time.Sleep(10 * time.Second)
		}
	}
	return all, nil
}

// addHostile adds hosts with each kind of attack, and as many whose answers need much memory.
func (f fleet) addHostile(ctx context.Context) error {
	_, hostile, err := f.AddHostile(hostileHosts, f.Hosts()...)
	if err != nil {
		return err
	}
	for n := range hostileHosts {
		_, at, err := f.AddSimulated(sim.Options{Windows: sim.WindowsOptions{Hostname: fmt.Sprintf("values-%d", n), NoQuirks: testenv.HostilityIsTested}, Attack: sim.Values})
		if err != nil {
			return err
		}
		hostile = append(hostile, at)
	}
	for _, h := range hostile {
		if err := f.Client.Create(ctx, h.Instance()); err != nil {
			return err
		}
	}
	return nil
}

// fill creates the objects that tenants, administrators and nodes may create, in the largest sizes that the API server accepts.
func (f fleet) fill(ctx context.Context) error {
	f.logf("Creating %d pods and %d ConfigMaps of a megabyte, and %d certificate requests", largePods, largeConfigMaps, invalidRequests)
	for n := range tenants {
		if err := f.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("tenant-", n)}}); err != nil {
			return err
		}
	}
	if err := each(ctx, largePods, func(ctx context.Context, n int) error { return f.Client.Create(ctx, largePod(n)) }); err != nil {
		return err
	}
	if err := each(ctx, largeConfigMaps, func(ctx context.Context, n int) error {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: fmt.Sprint("large-", n)}}
		cm.Data = map[string]string{"a": strings.Repeat("x", 1_000_000)}
		return f.Client.Create(ctx, cm)
	}); err != nil {
		return err
	}
	return f.requestCertificates(ctx)
}

// largePod returns a pod for Windows that fits no node.
func largePod(n int) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("tenant-", n%tenants), Name: fmt.Sprint("large-", n)}}
	pod.Spec.OS = &corev1.PodOS{Name: corev1.Windows}
	pod.Spec.NodeSelector = map[string]string{corev1.LabelOSStable: "windows", "missing": "label"}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "registry.example/c:1"}}
	for i := range 2400 {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
			Key: strings.Repeat("k", 240) + "/" + strings.Repeat("k", 50) + fmt.Sprintf("%04d", i), Operator: corev1.TolerationOpEqual, Value: strings.Repeat("v", 63), Effect: corev1.TaintEffectNoExecute,
		})
	}
	return pod
}

// requestCertificates creates certificate requests for missing nodes, with the identity of one node's WICD.
func (f fleet) requestCertificates(ctx context.Context) error {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	config := f.Lab.ControlPlane.RESTConfig()
	config.QPS = -1 // no limit
	config.Impersonate = restclient.ImpersonationConfig{
		UserName: api.WICDUserPrefix + f.Hosts()[0].Name, Groups: []string{api.WICDGroup, "system:authenticated"},
	}
	wicd, err := client.New(config, client.Options{Scheme: f.Client.Scheme()})
	if err != nil {
		return err
	}
	day := int32((24 * time.Hour).Seconds())
	return each(ctx, invalidRequests, func(ctx context.Context, n int) error {
		subject := &pkix.Name{CommonName: fmt.Sprintf("%smissing-%d", api.WICDUserPrefix, n), Organization: []string{api.WICDGroup}}
		request, err := cert.MakeCSR(key, subject, nil, nil)
		if err != nil {
			return err
		}
		return wicd.Create(ctx, &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("invalid-%d", n)},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				Request: request, SignerName: certificatesv1.KubeAPIServerClientSignerName, ExpirationSeconds: &day,
				Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
			},
		})
	})
}
