package main

import (
	"context"
	"crypto/tls"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/windows-machine-config/wmco/internal/shared/tlsprofile"
)

func TestMetricsFollowTheProfile(t *testing.T) {
	var profile *tlsprofile.Server
	s := serveMetrics(t, metricsOptions{profile: func() *tlsprofile.Server { return profile }})
	old := func() *tls.Config { return &tls.Config{MaxVersion: tls.VersionTLS12, InsecureSkipVerify: true} }
	chacha := func() *tls.Config {
		c := old()
		c.CipherSuites = []uint16{tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256}
		return c
	}
	only := tlsprofile.Profile{Type: "Custom", Custom: &tlsprofile.Custom{
		Ciphers: []string{"ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"}, MinTLSVersion: tlsprofile.TLS12,
	}}
	for _, test := range []struct {
		name           string
		profile        tlsprofile.Profile
		old, oldChaCha bool
	}{
		{"Intermediate", tlsprofile.Profile{}, true, true},
		{"Modern", tlsprofile.Profile{Type: "Modern"}, false, false},
		{"Custom", only, true, false},
	} {
		profile = new(test.profile.Server())
		if err := s.handshake(old()); (err == nil) != test.old {
			t.Errorf("%s, TLS 1.2: %v", test.name, err)
		}
		if err := s.handshake(chacha()); (err == nil) != test.oldChaCha {
			t.Errorf("%s, TLS 1.2 with ChaCha20 only: %v", test.name, err)
		}
		if err := s.handshake(&tls.Config{InsecureSkipVerify: true}); err != nil {
			t.Errorf("%s, TLS 1.3: %v", test.name, err)
		}
	}
}

func TestProfileIsKeptWhileUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		modern := tlsprofile.Profile{Type: "Modern"}.Server()
		answers := []error{nil, errors.New("away"), nil}
		p := &profileFollower{logger: logr.Discard(), read: func(context.Context) (*tlsprofile.Server, error) {
			err := answers[0]
			answers = answers[1:]
			if len(answers) == 0 {
				return nil, err // the cluster no longer has a profile
			}
			return &modern, err
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 2*profileInterval+profileInterval/2)
		defer cancel()
		go func() { _ = p.Start(ctx) }()
		for n, want := range []bool{true, true, false} {
			synctest.Wait()
			if got := p.server.Load(); (got != nil) != want {
				t.Errorf("after reading %d times the profile is %+v", n+1, got)
			}
			if n < 2 {
				time.Sleep(profileInterval)
			}
		}
		<-ctx.Done()
		synctest.Wait()
	})
}
