package tlsprofile

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"testing"
)

func intermediate() Server { return Server{TLS12, names(suites())} }

func TestServerFollowsTLSProfile(t *testing.T) {
	for _, test := range []struct {
		name    string
		profile Profile
		want    Server
	}{
		{"no profile is Intermediate", Profile{}, intermediate()},
		{"Intermediate", Profile{Type: "Intermediate"}, intermediate()},
		{"Old is no reason to offer less", Profile{Type: "Old"}, intermediate()},
		{"Modern", Profile{Type: "Modern"}, Server{MinVersion: TLS13}},
		{"a type of the future", Profile{Type: "Postquantum"}, Server{MinVersion: TLS13}},
		{"Custom without values", Profile{Type: "Custom"}, Server{MinVersion: TLS13}},
		{"Custom of TLS 1.3", Profile{Type: "Custom", Custom: &Custom{[]string{"ECDHE-RSA-AES128-GCM-SHA256"}, TLS13}}, Server{MinVersion: TLS13}},
		{"Custom of a version of the future", Profile{Type: "Custom", Custom: &Custom{[]string{"ECDHE-RSA-AES128-GCM-SHA256"}, "VersionTLS14"}},
			Server{MinVersion: TLS13}},
		{"Custom leaves out what is weak, in our order", Profile{Type: "Custom", Custom: &Custom{
			[]string{"ECDHE-RSA-CHACHA20-POLY1305", "DES-CBC3-SHA", "AES128-SHA", "ECDHE-RSA-AES128-GCM-SHA256", "TLS_AES_128_GCM_SHA256"}, "VersionTLS11"}},
			Server{TLS12, []string{"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"}}},
		{"Custom with names of IANA", Profile{Type: "Custom", Custom: &Custom{[]string{"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"}, TLS12}},
			Server{TLS12, []string{"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"}}},
		{"Custom without a suite of HTTP/2", Profile{Type: "Custom", Custom: &Custom{[]string{"ECDHE-RSA-AES256-GCM-SHA384"}, TLS12}},
			Server{MinVersion: TLS13}},
		{"Custom with suites of TLS 1.3 only", Profile{Type: "Custom", Custom: &Custom{[]string{"TLS_AES_128_GCM_SHA256"}, TLS12}},
			Server{MinVersion: TLS13}},
		{"Custom with nothing known", Profile{Type: "Custom", Custom: &Custom{[]string{"", "x"}, ""}}, Server{MinVersion: TLS13}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := test.profile.Server()
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("%+v, want %+v", got, test.want)
			}
			serves(t, got)
		})
	}
}

// serves starts a net/http server, which all three servers use, with these settings.
func serves(t *testing.T, s Server) {
	t.Helper()
	with := httptest.NewUnstartedServer(http.NotFoundHandler())
	with.StartTLS() // for its certificate and its client
	defer with.Close()
	server := &http.Server{Handler: http.NotFoundHandler(), TLSConfig: &tls.Config{
		MinVersion: tls.VersionTLS12, CipherSuites: ids(t, s.CipherSuites), Certificates: with.TLS.Certificates,
	}}
	if s.MinVersion == TLS13 {
		server.TLSConfig.MinVersion = tls.VersionTLS13
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		defer l.Close()
		ended <- server.ServeTLS(l, "", "")
	}()
	defer server.Close()
	answer, err := with.Client().Get("https://" + l.Addr().String())
	if err != nil {
		server.Close()
		t.Fatalf("a server with %+v does not respond: %v; it ended with: %v", s, err, <-ended)
	}
	answer.Body.Close()
}

// ids returns the IDs of suites, which crypto/tls must list as secure.
func ids(t *testing.T, suites []string) (ids []uint16) {
	t.Helper()
	for _, name := range suites {
		i := slices.IndexFunc(tls.CipherSuites(), func(s *tls.CipherSuite) bool { return s.Name == name })
		if i < 0 {
			t.Fatalf("crypto/tls has no secure suite %s", name)
		}
		ids = append(ids, tls.CipherSuites()[i].ID)
	}
	return ids
}
