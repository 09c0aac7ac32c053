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
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	restclient "k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

const (
	// hostileHosts attack for hostileFor, while groups of honestHosts join.
	hostileHosts = 32
	honestHosts  = 10
	hostileFor   = 5 * time.Minute
	// junkRequests is the number of invalid certificate requests.
	junkRequests = 5000
)

// measureHostile measures joins of honest hosts alone, with hostile hosts, and with invalid certificate requests.
func measureHostile(ctx context.Context, s *sheet) error {
	measureMask(s)
	c, err := openCrowd(ctx, s)
	if err != nil {
		return err
	}
	defer c.Close()
	f := fleet{c}
	if _, err := f.joinAll(ctx, honestHosts); err != nil { // one-time work
		return err
	}
	var alone, beside []float64
	for range rounds {
		seconds, err := f.joinAll(ctx, honestHosts)
		if err != nil {
			return err
		}
		alone = append(alone, seconds)
	}
	_, evil, err := f.AddHostile(hostileHosts, f.Hosts()...)
	if err != nil {
		return err
	}
	began := time.Now()
	for _, h := range evil {
		if err := f.Client.Create(ctx, h.Instance()); err != nil {
			return err
		}
	}
	for len(beside) < rounds || time.Since(began) < hostileFor {
		seconds, err := f.joinAll(ctx, honestHosts)
		if err != nil {
			return err
		}
		beside = append(beside, seconds)
		time.Sleep(10 * time.Second)
	}
	peak, err := f.Operator.PeakMemory()
	if err != nil {
		return err
	}
	f.number("hostile.operator_rss_mb", float64(peak)/1e6, "MB")
	f.number("hostile.honest_join_seconds", median(beside), "s")
	f.number("hostile.honest_join_ratio", median(beside)/median(alone), "ratio")
	if err := f.remove(ctx, evil); err != nil {
		return err
	}
	if err := f.measureJunk(ctx); err != nil {
		return err
	}
	return f.measureNames(ctx)
}

// remove releases hosts unchanged.
func (f fleet) remove(ctx context.Context, hosts []testenv.Host) error {
	for _, h := range hosts {
		i := h.Instance()
		if err := f.Client.Get(ctx, client.ObjectKeyFromObject(i), i); err != nil {
			return err
		}
		was := i.DeepCopy()
		metav1.SetMetaDataAnnotation(&i.ObjectMeta, api.AnnotationRelease, "true")
		if err := f.Client.Patch(ctx, i, client.MergeFrom(was)); err != nil {
			return err
		}
		if err := f.Client.Delete(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// measureJunk creates certificate requests for daemons of hosts that do not exist. The operator decides about all of them
// repeatedly. Meanwhile hosts join.
func (f fleet) measureJunk(ctx context.Context) error {
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
	f.say("Creating %d certificate requests that violate a rule", junkRequests)
	for n := range junkRequests {
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
			Subject: pkix.Name{CommonName: fmt.Sprintf("%snobody-%d", api.WICDUserPrefix, n), Organization: []string{api.WICDGroup}},
		}, key)
		if err != nil {
			return err
		}
		day := int32((24 * time.Hour).Seconds())
		if err := as.Create(ctx, &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("junk-%d", n)},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
				SignerName: certificatesv1.KubeAPIServerClientSignerName, ExpirationSeconds: &day,
				Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
			},
		}); err != nil {
			return err
		}
	}
	seconds, err := f.joinAll(ctx, honestHosts)
	if err != nil {
		return err
	}
	f.number("csr.junk_5000_join_seconds", seconds, "s")
	return nil
}
