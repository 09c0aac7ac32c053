//go:build linux

package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	restclient "k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
)

// fill creates what others may create, in numbers and sizes that the API server takes.
func (f fleet) fill(ctx context.Context) error {
	f.say("Creating %d pods and %d ConfigMaps of a megabyte, and %d certificate requests", largePods, largeConfigMaps, allRequests)
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
	return f.request(ctx, "more", allRequests-junkRequests)
}

// each calls a function some times, several at once, until one fails.
func each(ctx context.Context, n int, call func(context.Context, int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := call(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// largePod is one for Windows that no node takes.
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

// request creates certificate requests as WICD of one node, for others.
func (f fleet) request(ctx context.Context, prefix string, n int) error {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	config := f.Lab.ControlPlane.RESTConfig()
	config.QPS = -1 // no limit
	config.Impersonate = restclient.ImpersonationConfig{
		UserName: api.WICDUserPrefix + f.Hosts()[0].Name, Groups: []string{api.WICDGroup, "system:authenticated"},
	}
	as, err := client.New(config, client.Options{Scheme: f.Client.Scheme()})
	if err != nil {
		return err
	}
	day := int32((24 * time.Hour).Seconds())
	return each(ctx, n, func(ctx context.Context, n int) error {
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
			Subject: pkix.Name{CommonName: fmt.Sprintf("%smissing-%d", api.WICDUserPrefix, n), Organization: []string{api.WICDGroup}},
		}, key)
		if err != nil {
			return err
		}
		return as.Create(ctx, &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", prefix, n)},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
				SignerName: certificatesv1.KubeAPIServerClientSignerName, ExpirationSeconds: &day,
				Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
			},
		})
	})
}
