package metadata_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/windows-machine-config/wmco/internal/shared/platform"
	"github.com/windows-machine-config/wmco/internal/shared/platform/metadata"
	"github.com/windows-machine-config/wmco/internal/testing/sim/servers"
)

const (
	tokenAsked = "PUT /latest/api/token"
	awsAsked   = "GET /latest/meta-data/local-hostname"
	gcpAsked   = "GET /computeMetadata/v1/instance/hostname"
)

// fetch queries a service with fake time.
func fetch(t *testing.T, o servers.MetadataOptions, check func(t *testing.T, name string, err error, took time.Duration, requested []string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := servers.NewMetadata(o)
		began := time.Now()
		name, err := metadata.Client{Dial: m.Dial}.NodeName(t.Context(), o.Platform)
		check(t, name, err, time.Since(began), m.Requests())
		m.Close()
	})
}

func TestNodeNameIsCloudName(t *testing.T) {
	const long = "a-machine-with-a-name-of-forty-characters.us-east1-b.c.a-project.internal"
	for name, test := range map[string]struct {
		service  servers.MetadataOptions
		want     string
		requests []string
	}{
		"AWS": {servers.MetadataOptions{Platform: platform.AWS, NoVersion1: true, Name: "ip-10-0-1-2.us-east-2.compute.internal"},
			"ip-10-0-1-2.us-east-2.compute.internal", []string{tokenAsked, awsAsked}},
		"AWS without tokens": {servers.MetadataOptions{Platform: platform.AWS, Version1: true, Name: "ip-10-0-1-2.ec2.internal\n"},
			"ip-10-0-1-2.ec2.internal", []string{tokenAsked, awsAsked}},
		"AWS with two domains": {servers.MetadataOptions{Platform: platform.AWS, Name: "ip-10-0-1-2.one.example two.example"},
			"ip-10-0-1-2.one.example", []string{tokenAsked, awsAsked}},
		"AWS in capitals":    {servers.MetadataOptions{Platform: platform.AWS, Name: "IP-10-0-1-2.EC2.internal"}, "ip-10-0-1-2.ec2.internal", []string{tokenAsked, awsAsked}},
		"GCP":                {servers.MetadataOptions{Platform: platform.GCP, Name: "win-1.c.project.internal"}, "win-1.c.project.internal", []string{gcpAsked}},
		"GCP, 63 characters": {servers.MetadataOptions{Platform: platform.GCP, Name: long[len(long)-63:]}, long[len(long)-63:], []string{gcpAsked}},
		"GCP, too long":      {servers.MetadataOptions{Platform: platform.GCP, Name: long}, "a-machine-with-a-name-of-forty-characters", []string{gcpAsked}},
		"GCP, without a dot": {servers.MetadataOptions{Platform: platform.GCP, Name: strings.Repeat("a", 62) + "-bc"}, strings.Repeat("a", 62), []string{gcpAsked}},
		"Azure":              {servers.MetadataOptions{Platform: "Azure", Name: "x"}, "", nil},
		"vSphere":            {servers.MetadataOptions{Platform: platform.VSphere, Name: "x"}, "", nil},
		"none":               {servers.MetadataOptions{Name: "x"}, "", nil},
		"GCP that has too much to do": {servers.MetadataOptions{Platform: platform.GCP, Name: "win-1", Status: http.StatusTooManyRequests, Failures: 2},
			"win-1", []string{gcpAsked, gcpAsked, gcpAsked}},
	} {
		t.Run(name, func(t *testing.T) {
			fetch(t, test.service, func(t *testing.T, name string, err error, took time.Duration, requested []string) {
				if err != nil || name != test.want {
					t.Errorf("NodeName() = %q, %v, want %q", name, err, test.want)
				}
				if diff := cmp.Diff(test.requests, requested); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
				if took > 2*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

func TestNodeNameErrorsQuoteRequestAndResponse(t *testing.T) {
	for name, test := range map[string]struct {
		service  servers.MetadataOptions
		contains []string
		requests int
	}{
		"AWS does not respond": {servers.MetadataOptions{Platform: platform.AWS, Delay: time.Minute}, []string{
			"http://169.254.169.254/latest/meta-data/local-hostname: no response within 2s (3 attempts)", "before that", "latest/api/token",
		}, 0},
		"AWS refuses": {servers.MetadataOptions{Platform: platform.AWS, Status: http.StatusForbidden, Failures: -1}, []string{"403 Forbidden", `"not now"`}, 2},
		"AWS fails":   {servers.MetadataOptions{Platform: platform.AWS, Status: http.StatusServiceUnavailable, Failures: -1}, []string{"503", "3 attempts"}, 6},
		"GCP is another cloud": {servers.MetadataOptions{Platform: platform.GCP, Status: http.StatusNotFound, Failures: -1},
			[]string{"computeMetadata/v1/instance/hostname", "404"}, 1},
		"an empty name":      {servers.MetadataOptions{Platform: platform.GCP, Name: " \n"}, []string{"empty response"}, 3},
		"a page of a portal": {servers.MetadataOptions{Platform: platform.GCP, Name: "<html>Please log in</html>"}, []string{"is not a DNS name", "<html>"}, 1},
		"a label too few":    {servers.MetadataOptions{Platform: platform.GCP, Name: "win..internal"}, []string{"is not a DNS name"}, 1},
		"a Kelvin sign":      {servers.MetadataOptions{Platform: platform.GCP, Name: "win-\u212a.internal"}, []string{"is not a DNS name"}, 1},
		"an underscore":      {servers.MetadataOptions{Platform: platform.GCP, Name: "win_1.internal"}, []string{"is not a DNS name"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			fetch(t, test.service, func(t *testing.T, name string, err error, took time.Duration, requested []string) {
				if err == nil || name != "" {
					t.Fatalf("NodeName() = %q, %v, want an error", name, err)
				}
				for _, part := range test.contains {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("%q does not contain %q", err, part)
					}
				}
				if len(requested) != test.requests {
					t.Errorf("%d requests, want %d: %q", len(requested), test.requests, requested)
				}
				if took > 16*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// TestMain sets a proxy for all tests, as hosts may have one: net/http reads it once per process.
func TestMain(m *testing.M) {
	for _, name := range []string{"HTTP_PROXY", "http_proxy"} {
		if err := os.Setenv(name, "http://127.0.0.1:1"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

func TestMetadataBypassesProxy(t *testing.T) {
	var dialed []string
	dial := func(_ context.Context, _, address string) (net.Conn, error) {
		dialed = append(dialed, address)
		ours, theirs := net.Pipe()
		return ours, theirs.Close()
	}
	synctest.Test(t, func(t *testing.T) {
		_, _ = metadata.Client{Dial: dial}.NodeName(t.Context(), platform.GCP)
	})
	want := []string{"169.254.169.254:80", "169.254.169.254:80", "169.254.169.254:80"}
	if diff := cmp.Diff(want, dialed); diff != "" {
		t.Errorf("connections (-want +got):\n%s", diff)
	}
}

func TestQueryEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := servers.NewMetadata(servers.MetadataOptions{Platform: platform.AWS, Delay: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if name, err := (metadata.Client{Dial: m.Dial}).NodeName(ctx, platform.AWS); err == nil {
			t.Errorf("NodeName() = %q", name)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
		m.Close()
	})
}

// FuzzNames expects a lower-case DNS name, or a short error, whatever a service responds.
func FuzzNames(f *testing.F) {
	f.Add(true, "ip-10-0-0-1.ec2.internal other.internal")
	f.Add(false, "-a..b\x00")
	f.Add(false, strings.Repeat("a", 70)+"."+strings.Repeat("b", 70))
	f.Fuzz(func(t *testing.T, aws bool, answer string) {
		o := servers.MetadataOptions{Platform: platform.GCP, Name: answer}
		if aws {
			o.Platform = platform.AWS
		}
		fetch(t, o, func(t *testing.T, name string, err error, _ time.Duration, _ []string) {
			if err != nil {
				if name != "" || len(err.Error()) > 2000 {
					t.Errorf("both %q and an error, of %d bytes", name, len(err.Error()))
				}
				return
			}
			if len(validation.IsDNS1123Subdomain(name)) > 0 && len(name) <= 253 && !hasLongLabel(name) {
				t.Errorf("%q becomes the name %q", answer, name)
			}
		})
	})
}

// hasLongLabel reports names that the operator's checks reject with a reason: they limit lengths.
func hasLongLabel(name string) bool {
	return slices.ContainsFunc(strings.Split(name, "."), func(label string) bool { return len(label) > 63 })
}
