//go:build linux

package e2e

import (
	"encoding/base64"
	"strings"

	"github.com/windows-machine-config/wmco/lab"
)

const containerdLog = `C:\var\log\containerd\containerd.log`

// fileOf returns the content of a file on the host.
func (s imagesTest) fileOf(name string) string {
	s.t.Helper()
	text, err := s.host.ReadFile(name)
	must(s.t, err)
	return string(text)
}

// expectNoSecretInLog searches containerd's log, which is at level trace during the other tests, for secrets that only administrators of the host may
// know.
func (s imagesTest) expectNoSecretInLog() {
	s.t.Helper()
	log := s.fileOf(containerdLog)
	// At level trace, the log has the requests to WICD and to a registry, with their headers.
	for _, want := range []string{"level=debug", `"do request"`, "request.header.accept", "127.0.0.1:10280", s.remote.Host} {
		if !strings.Contains(log, want) {
			s.t.Errorf("%d bytes of containerd's log do not contain %s", len(log), want)
		}
	}
	secrets := map[string]string{"the key of containerd's certificate": keyIn(s.t, s.fileOf(`C:\k\containerd\wicd-client.pem`))}
	for _, r := range []*lab.Registry{s.source, s.first, s.second, s.remote} {
		secrets["the password of "+s.nameOf(r)] = r.Password
		secrets["the header with the password of "+s.nameOf(r)] = base64.StdEncoding.EncodeToString([]byte(r.User + ":" + r.Password))
	}
	for name, secret := range secrets {
		if secret == "" || strings.Contains(log, secret) {
			s.t.Errorf("containerd's log contains %s", name)
		}
	}
}
