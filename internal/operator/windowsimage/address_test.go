package windowsimage

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
	"github.com/windows-machine-config/wmco/internal/shared/registryclient"
)

// TestRegistryCannotRedirectOperator, neither by a redirect nor by naming a token server.
func TestRegistryCannotRedirectOperator(t *testing.T) {
	for _, to := range []string{
		"http://169.254.169.254/latest/", "http://127.0.0.1:10250/", "http://[::1]/", "http://localhost/", "http://127.1/", "http://168.63.129.16/machine/?comp=goalstate",
		"http://100.100.100.200/latest/meta-data/", "http://[fd00:ec2::254]/latest/meta-data/", "http://10.0.0.5:2379/v2/keys", "https://jenkins.example.com/job/x/build?token=y",
		"http://prometheus.monitoring.svc:9090/-/quit", "http://jenkins/v2/a/manifests/1", "https://jenkins.example.com/v2/a/manifests/1?token=y",
		"https://jenkins.example.com/v2/../job/manifests/1", "https://jenkins.example.com/v2/a%2f/manifests/1", "https://jenkins.example.com/v2/a/manifests/2", "https://jenkins.example.com/v2/a/blobs/1",
	} {
		for name, answer := range map[string]http.HandlerFunc{
			"a redirect": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", to)
				w.WriteHeader(http.StatusFound)
			},
			"an authority": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("WWW-Authenticate", `Bearer realm="`+to+`"`)
				w.WriteHeader(http.StatusUnauthorized)
			},
		} {
			isEndpoint := name == "an authority" && !strings.Contains(to, "?") && strings.Contains(to, ".example.com") || strings.Contains(to, "10.0.0.5") && name == "an authority"
			r := reader(t, answer, mirrors.Table{})
			if _, err := r.Read(t.Context(), "r.test/a:1"); err == nil || strings.Contains(err.Error(), "not expected") != isEndpoint {
				t.Errorf("%s to %s: %v", name, to, err)
			}
		}
	}
}

// TestAllowedRedirects: registry.k8s.io serves all of its content from other registries, and most registries store blobs elsewhere.
func TestAllowedRedirects(t *testing.T) {
	parse := func(text string) *url.URL {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	digest := digestOf("x")
	for _, test := range []struct {
		part, reference, to string
		allowed             bool
	}{
		{"manifests", "3.9", "https://us-west1-docker.pkg.dev/v2/k8s-artifacts-prod/images/pause/manifests/3.9", true},
		{"manifests", digest, "https://us-west1-docker.pkg.dev/v2/a/manifests/" + digest, true},
		{"manifests", "3.9", "https://r.example.com/anything?at=all", true}, // the same host
		{"blobs", digest, "https://prod-bucket.s3.us-east-1.amazonaws.com/1234?X-Amz-Signature=y", true},
		{"blobs", digest, "https://192.168.1.5:9000/bucket/1234", true},
		{"blobs", digest, "https://minio:9000/bucket/1234", false},
		{"blobs", digest, "https://minio.storage.svc.cluster.local:9000/1234", false},
		{"blobs", digest, "https://169.254.169.254/1234", false},
		{"manifests", "3.9", "https://prod-bucket.s3.us-east-1.amazonaws.com/1234?X-Amz-Signature=y", false},
	} {
		hop := registryclient.Hop{URL: parse(test.to), From: parse("https://r.example.com/v2/pause/" + test.part + "/" + test.reference), Part: test.part, Reference: test.reference}
		if err := (Guard{}).Check(t.Context(), hop); (err == nil) != test.allowed {
			t.Errorf("%s to %s: %v", test.part, test.to, err)
		}
	}
}

// TestAllowedRegistryDoesNotAllowOtherPaths expects that another registry cannot redirect to other paths of an allowed one.
func TestAllowedRegistryDoesNotAllowOtherPaths(t *testing.T) {
	guard := Guard{Allowed: []string{"127.0.0.1:5000"}}
	other, own := &url.URL{Scheme: "https", Host: "r.example.com"}, &url.URL{Scheme: "https", Host: "127.0.0.1:5000"}
	for _, test := range []struct {
		from    *url.URL
		path    string
		allowed bool
	}{{nil, "/v2/a/manifests/1", true}, {own, "/elsewhere", true}, {other, "/v2/a/manifests/1", true}, {other, "/debug/flush", false}} {
		hop := registryclient.Hop{URL: &url.URL{Scheme: "https", Host: "127.0.0.1:5000", Path: test.path}, From: test.from, Part: "manifests", Reference: "1"}
		if err := guard.Check(t.Context(), hop); (err == nil) != test.allowed {
			t.Errorf("%s from %v: %v", test.path, test.from, err)
		}
	}
}

func TestNonRegistryAddressesAreRefused(t *testing.T) {
	own := func() ([]net.Addr, error) {
		return []net.Addr{&net.IPNet{IP: net.IPv4(10, 0, 0, 5), Mask: net.CIDRMask(24, 32)}}, nil
	}
	guard := Guard{Ranges: []netip.Prefix{netip.MustParsePrefix("172.30.0.0/16"), netip.MustParsePrefix("fd01::/48")}, Own: own}
	for host, want := range map[string]bool{
		"10.0.0.1": true, "192.168.1.1": true, "8.8.8.8": true, "2001:db8::1": true, "fd00::1": true, "::ffff:10.0.0.1": true, "64:ff9b::a00:1": true,
		"127.0.0.1": false, "::1": false, "169.254.169.254": false, "fe80::1%eth0": false, "0.0.0.0": false, "64:ff9b::a9fe:a9fe": false, "2002:a9fe:a9fe::1": false,
		"168.63.129.16": false, "fd00:ec2::254": false, "172.30.0.1": false, "::ffff:172.30.0.1": false, "64:ff9b::ac1e:1": false, "fd01::1": false, "10.0.0.5": false, "::ffff:10.0.0.5": false,
		"quay.io": true, "registry": true, "10.example.com": true, "image-registry.openshift-image-registry.svc": true, // Dial checks its address
		"localhost": false, "localhost.": false, "a.localhost": false, "127.1": false, "2130706433": false, "0x7f000001": false, "": false, "metadata.google.internal": false,
	} {
		if err := guard.host(t.Context(), host, false); (err == nil) != want || err != nil && !errors.Is(err, ErrNoRegistry) {
			t.Errorf("%s: %v", host, err)
		}
	}
	guard.Own = func() ([]net.Addr, error) { return nil, errors.New("no") }
	if guard.host(t.Context(), "10.0.0.1", false) == nil {
		t.Error("without the addresses of this machine, others are none of them")
	}
}

// TestProxyTargetsAreChecked, as far as this machine can resolve names.
func TestProxyTargetsAreChecked(t *testing.T) {
	guard := Guard{Lookup: func(_ context.Context, _, name string) ([]netip.Addr, error) {
		found := map[string]string{"127.0.0.1.nip.io.": "127.0.0.1", "rebound.example.com.": "169.254.169.254", "quay.io.": "8.8.8.8"}[name]
		if found == "" {
			return nil, &net.DNSError{IsNotFound: true}
		}
		return []netip.Addr{netip.MustParseAddr("8.8.4.4"), netip.MustParseAddr(found)}, nil
	}}
	for host, want := range map[string]bool{
		"quay.io": true, "only.the.proxy.knows": true, "8.8.8.8": true, "127.0.0.1.nip.io": false, "127.0.0.1.nip.io.": false, "rebound.example.com": false, "registry": false, "registry.": false,
		"kubernetes.default.svc": false, "a.b.svc.cluster.local": false, "127.0.0.1": false,
	} {
		if err := guard.host(t.Context(), host, true); (err == nil) != want {
			t.Errorf("%s: %v", host, err)
		}
	}
}

func TestOnlyRegistriesAreDialed(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	at := listener.Addr().String()
	if c, err := (Guard{}).Dial()(t.Context(), "tcp", at); !errors.Is(err, ErrNoRegistry) {
		t.Errorf("Dial() = %v, %v", c, err)
	}
	for name, guard := range map[string]Guard{"allowed": {Allowed: []string{at}}, "a proxy": {Proxies: []string{at}}} {
		c, err := guard.Dial()(t.Context(), "tcp", at)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_ = c.Close()
	}
}
