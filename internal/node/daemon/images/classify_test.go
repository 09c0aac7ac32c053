package images

import (
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/cri"
	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// at returns the time d after the start of the tests.
func at(d time.Duration) time.Time { return time.Date(2026, 11, 23, 7, 0, 0, 0, time.UTC).Add(d) }

const (
	wantedImage = "mcr.test/oss/pause:2"
	formerImage = "mcr.test/oss/pause:1"
)

func TestClassify(t *testing.T) {
	const pull = `failed to pull and unpack image "` + wantedImage + `": `
	for name, test := range map[string]struct {
		inUse     string
		hasFormer bool
		e         cri.Error
		reason    string
		contains  []string
		never     string
	}{
		"not found": {
			wantedImage, false, cri.Error{Code: cri.NotFound, Message: pull + `failed to resolve image: ` + wantedImage + `: not found`},
			api.ReasonSandboxImageNotFound, []string{"registry mcr.test nor a permitted mirror", "404 Not Found", "skopeo copy --all", "not Ready until"}, formerImage,
		},
		"not found, with a former image": {
			formerImage, true, cri.Error{Code: cri.NotFound, Message: pull + `failed to resolve image: ` + wantedImage + `: not found`},
			api.ReasonSandboxImageNotFound, []string{"pods start from " + formerImage}, "not Ready",
		},
		"removed from the host": {
			wantedImage, true, cri.Error{Code: cri.NotFound, Message: pull + "not found"},
			api.ReasonSandboxImageNotFound, []string{"the image was removed from the host"}, "not Ready",
		},
		"a mirror forbids": {
			wantedImage, false, cri.Error{Code: 2, Message: pull + `failed to resolve image: unexpected status from HEAD request to https://mirror.test:5000/v2/oss/pause/manifests/2?ns=mcr.test: 403 Forbidden`},
			api.ReasonSandboxImageDenied, []string{"registry mirror.test:5000 answered 403 Forbidden", "pull secret"}, "ns=mcr.test",
		},
		"no credentials": {
			wantedImage, false, cri.Error{Code: 2, Message: pull + `pull access denied, repository does not exist or may require authorization: authorization failed: no basic auth credentials`},
			api.ReasonSandboxImageDenied, []string{"registry mcr.test answered 401 Unauthorized", "credentials"}, formerImage,
		},
		"another build": {
			formerImage, true, cri.Error{Code: cri.NotFound, Message: pull + `no match for platform in manifest: not found`},
			api.ReasonSandboxImageUnsuitable, []string{"no entry for this host's build of Windows", "pods start from " + formerImage}, "404",
		},
		"mirrors that WICD queried do not deliver": {
			wantedImage, false, cri.Error{Code: 2, Message: pull + `unexpected status from GET request to https://127.0.0.1:10280/v2/oss/pause/manifests/2?ns=mcr.test: 403 Forbidden` + "\ndenied: m.test/oss/pause: status 500"},
			api.ReasonSandboxImagePullFailed, []string{"no permitted registry delivered it", "m.test/oss/pause: status 500"}, "credentials",
		},
		"no mirror that WICD queried has it": {
			wantedImage, false, cri.Error{Code: 2, Message: pull + `unexpected status from GET request to https://127.0.0.1:10280/v2/oss/pause/manifests/2?ns=mcr.test: 403 Forbidden` + "\ndenied: " + mirrors.NotFound + ": m.test/oss/pause: not found (status 404)"},
			api.ReasonSandboxImageNotFound, []string{"404 Not Found", "skopeo copy --all", "m.test/oss/pause"}, "credentials",
		},
		"a mirror that WICD queried requires credentials": {
			wantedImage, false, cri.Error{Code: 2, Message: pull + `unexpected status from GET request to https://127.0.0.1:10280/v2/oss/pause/manifests/2?ns=mcr.test: 403 Forbidden` + "\ndenied: m.test/oss/pause: " + mirrors.RefusesCredentials},
			api.ReasonSandboxImageDenied, []string{"one rejects the node's credentials", "m.test/oss/pause"}, "127.0.0.1:10280 answered",
		},
		"the source that WICD queried requires credentials": {
			wantedImage, false, cri.Error{Code: 2, Message: pull + `unexpected status from GET request to https://127.0.0.1:10280/v2/oss/pause/manifests/2?ns=mcr.test: 401 Unauthorized`},
			api.ReasonSandboxImageDenied, []string{"registry mcr.test answered 401 Unauthorized", "pull secret"}, "127.0.0.1:10280 answered",
		},
		"overloaded": {
			wantedImage, false, cri.Error{Code: 2, Message: pull + `unexpected status from GET request to https://mcr.test/v2/: 429 Too Many Requests`},
			api.ReasonSandboxImagePullFailed, []string{"registry mcr.test answered 429 Too Many Requests"}, "403",
		},
		"unreachable": {
			wantedImage, false, cri.Error{Code: 2, Message: pull + `failed to do request: Head "https://user:word@mcr.test/v2/": dial tcp: lookup mcr.test: no such host`},
			api.ReasonSandboxImagePullFailed, []string{"could not be reached", "proxy", "no such host"}, "word",
		},
		"a credential in a URL": {
			wantedImage, false, cri.Error{Code: 2, Message: pull + `failed to do request: Get "https://blobs.test/x?sig=secret&e=1": EOF`},
			api.ReasonSandboxImagePullFailed, []string{"https://blobs.test/x", "EOF"}, "secret",
		},
		"a long answer": {wantedImage, false, cri.Error{Code: 2, Message: strings.Repeat("€", 5000)}, api.ReasonSandboxImagePullFailed, nil, formerImage},
		"nothing":       {wantedImage, false, cri.Error{}, api.ReasonSandboxImagePullFailed, []string{wantedImage}, formerImage},
	} {
		t.Run(name, func(t *testing.T) {
			f := classify(at(0), wantedImage, test.inUse, test.hasFormer, &test.e)
			if f.reason != test.reason || !f.known || f.image != wantedImage || len(f.message) > truncate.Note {
				t.Errorf("classify() = %+v with %d bytes, want reason %s", f, len(f.message), test.reason)
			}
			for _, part := range test.contains {
				if !strings.Contains(f.message, part) {
					t.Errorf("%q does not contain %q", f.message, part)
				}
			}
			if strings.Contains(f.message, test.never) {
				t.Errorf("%q contains %q", f.message, test.never)
			}
		})
	}
}

func FuzzClassify(f *testing.F) {
	f.Add(2, `unexpected status from HEAD request to https://mirror.test:5000/v2/x?ns=mcr.test: 403 Forbidden`)
	f.Add(5, "no match for platform in manifest: not found")
	f.Add(2, `Get "https://user:SECRET@x/?SECRET": EOF`)
	f.Fuzz(func(t *testing.T, code int, message string) {
		found := classify(at(0), wantedImage, formerImage, true, &cri.Error{Code: code, Message: message})
		if found.reason == "" || found.message == "" || len(found.message) > truncate.Note {
			t.Errorf("%q becomes %+v", message, found)
		}
	})
}

func TestLongestPullSecretEntryIsUsed(t *testing.T) {
	const config = `{"auths": {
		"registry.test": {"auth": "d2hvbGU6cA=="},
		"https://registry.test/team/": {"username": "u", "password": "p"},
		"registry.test/team/pause": {"identitytoken": "t"},
		"registry.test:5000": {"username": "port", "password": "p"},
		"test": {"username": "wrong"},
		"registry.test/te": {"username": "wrong"}
	}}`
	const server = "https://registry.test"
	for image, want := range map[string]cri.Login{
		"registry.test/other/pause:1":       {Username: "whole", Password: "p", Server: server},
		"registry.test/team/other:1":        {Username: "u", Password: "p", Server: server},
		"registry.test/team/pause:1":        {IdentityToken: "t", Server: server},
		"registry.test/team/pause@sha256:0": {IdentityToken: "t", Server: server},
		"registry.test/team/pause/x:1":      {IdentityToken: "t", Server: server},
		"registry.test:5000/team/pause:1":   {Username: "port", Password: "p", Server: server + ":5000"},
		"elsewhere.test/registry.test:1":    {},
	} {
		if got := loginOf([]byte(config), image); got != want {
			t.Errorf("for %s: %+v, want %+v", image, got, want)
		}
	}
	if got := loginOf([]byte("{"), "registry.test/a:1"); got != (cri.Login{}) {
		t.Errorf("invalid JSON: %+v", got)
	}
}
