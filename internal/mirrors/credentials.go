package mirrors

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// credential is one entry of the pull secret.
type credential struct {
	// key as in the secret, and the repositories it is for. The host of the scope may have wildcards.
	key   string
	scope repository
	// basic is user and password in base64; token says that there is an identity token instead. An entry with neither
	// asks for no credentials.
	basic string
	token bool
}

// dockerConfig is as much of a .dockerconfigjson as the kubelet reads (pkg/credentialprovider/config.go).
type dockerConfig struct {
	Auths       map[string]json.RawMessage `json:"auths"`
	HTTPHeaders map[string]string          `json:"HttpHeaders,omitempty"`
}

// UnmarshalJSON lets one entry that cannot be read, also the first of two with the same key, fail all of them, as the
// kubelet does.
func (c *credential) UnmarshalJSON(text []byte) error {
	var err error
	*c, err = readCredential(text)
	return err
}

// readPullSecret reads the credentials and renders the kubelet's config.json: the secret as it is. The kubelet refuses
// the whole file when it cannot read one entry of it, so such an entry is left out.
func (r *report) readPullSecret(s PullSecret) ([]credential, []File) {
	if s.Name == "" && len(s.DockerConfigJSON) == 0 {
		return nil, nil
	}
	at := place{kind: "Secret", name: s.Name, field: "data[.dockerconfigjson]"}
	var config dockerConfig
	if err := json.Unmarshal(s.DockerConfigJSON, &config); err != nil { // its text may quote what it read
		r.add(at, InvalidPullSecret, `it is not JSON of the form {"auths": {"<registry>": {"auth": "<base64 of user:password>"}}}. `+
			"Windows nodes pull without credentials until it is.")
		return nil, nil
	}
	var known []credential
	for _, key := range slices.Sorted(maps.Keys(config.Auths)) {
		at := at.in(fmt.Sprintf(".auths[%s]", shown(key)))
		c, err := readCredential(config.Auths[key])
		if err != nil {
			r.add(at, InvalidPullSecret, "%v. On Windows nodes this entry is left out.", err)
			delete(config.Auths, key)
			continue
		}
		scope, ok := readScope(key)
		if !ok {
			r.add(at, InvalidPullSecret, "the key is not a registry or a repository, as in quay.io or quay.io/team; no image is pulled with this entry.")
			continue
		}
		c.key, c.scope = shown(key), scope
		known = append(known, c)
	}
	content := s.DockerConfigJSON
	var all struct {
		Auths map[string]credential `json:"auths"`
	}
	if json.Unmarshal(content, &all) != nil {
		content, _ = json.MarshalIndent(config, "", "  ") // of what was just read
	}
	return known, []File{{Path: KubeletConfig, Content: string(content), Secret: true}}
}

// readCredential takes what the kubelet takes; what it says holds no part of the entry.
func readCredential(text json.RawMessage) (credential, error) {
	var e struct{ Username, Password, Email, Auth, IdentityToken string }
	if err := json.Unmarshal(text, &e); err != nil {
		return credential{}, errors.New("it is not an object of strings; auth is needed, or username and password")
	}
	if e.Auth != "" {
		encoding := base64.RawStdEncoding
		if strings.HasSuffix(strings.TrimSpace(e.Auth), "=") {
			encoding = base64.StdEncoding
		}
		pair, err := encoding.DecodeString(e.Auth)
		user, password, ok := strings.Cut(string(pair), ":")
		if err != nil || !ok {
			return credential{}, errors.New("auth is not the base64 of user:password")
		}
		e.Username, e.Password = user, password
	}
	c := credential{token: e.IdentityToken != ""}
	if e.Username != "" && e.Password != "" && !c.token {
		c.basic = base64.StdEncoding.EncodeToString([]byte(e.Username + ":" + e.Password))
	}
	return c, nil
}

// readScope reads a key of the pull secret as the kubelet does (pkg/credentialprovider/keyring.go): a host, which may
// have wildcards, and a path; a scheme and /v1/ or /v2/ before the path count for nothing.
func readScope(key string) (repository, bool) {
	key = strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://")
	host, path, _ := strings.Cut(key, "/")
	for _, version := range []string{"v1", "v2"} {
		if path == version+"/" || strings.HasPrefix(path, version+"/") {
			path = strings.TrimPrefix(path, version+"/")
			break
		}
	}
	path = strings.TrimSuffix(path, "/")
	host = strings.ToLower(host)
	if !validHost(strings.NewReplacer("*", "x", "?", "x").Replace(host)) || path != "" && !validPath(path) {
		return repository{}, false
	}
	return repository{host: account(host), path: path}, true
}

// account is the name under which the credentials for a host are known: those for Docker Hub are kept as
// https://index.docker.io/v1/.
func account(host string) string {
	if host == dockerHubOld || host == dockerHubRegistry {
		return dockerHub
	}
	return host
}

// isFor says whether the kubelet would find the credential for a host.
func (c credential) isFor(host string) bool {
	pattern, name := strings.Split(c.scope.host, "."), strings.Split(account(host), ".")
	if !c.wild() {
		return c.scope.host == account(host)
	}
	return slices.EqualFunc(pattern, name, func(pattern, label string) bool {
		ok, err := path.Match(pattern, label)
		return ok && err == nil
	})
}

func (c credential) wild() bool { return strings.ContainsAny(c.scope.host, "*?") }

func (c credential) same(other credential) bool {
	return c.key == other.key || c.basic == other.basic && !c.token && !other.token
}

// giveCredentials gives mirrors those of the pull secret that are their own. The source gets none: the kubelet hands
// its credentials to containerd with each pull.
func (r *report) giveCredentials(g *registry, known []credential) {
	for i, m := range g.mirrors {
		if m.self {
			continue
		}
		own := ownCredentials(m, known)
		switch {
		case len(own) > 1:
			var keys []string
			for _, c := range own {
				if c.key != "" {
					keys = append(keys, c.key)
				}
			}
			r.add(m.at, CredentialsConflict, "the pull secret has different credentials for parts of this mirror (%s), and containerd takes one for all of %s. "+
				"Windows nodes ask it without credentials; give these entries the same account, or the mirrors different paths.", strings.Join(keys, ", "), m.url)
		case own[0].token:
			r.add(m.at, CredentialsUnsupported, "the pull secret has an identity token for this mirror (%s), which containerd cannot give to a mirror. "+
				"Windows nodes ask it without credentials; use user and password.", own[0].key)
		case own[0].basic != "":
			g.mirrors[i].basic = own[0].basic
			r.reportSent(m, own[0], g.sources, known)
		default:
			r.reportWild(m, known)
		}
	}
}

// ownCredentials are the different credentials for what the sources have at a mirror: for each repository those of
// the longest scope that holds it, and all for parts of it. There is always one, which may be empty.
func ownCredentials(m mirror, known []credential) []credential {
	var own []credential
	add := func(c credential) {
		if !slices.ContainsFunc(own, c.same) {
			own = append(own, c)
		}
	}
	for _, repo := range m.repositories {
		best := []credential{{}}
		for _, c := range known {
			if c.wild() || !c.isFor(repo.host) {
				continue
			}
			switch {
			case !within(repo.path, c.scope.path):
				if within(c.scope.path, repo.path) {
					add(c)
				}
			case best[0].key == "" || len(c.scope.path) > len(best[0].scope.path):
				best = []credential{c}
			case len(c.scope.path) == len(best[0].scope.path):
				best = append(best, c)
			}
		}
		for _, c := range best {
			add(c)
		}
	}
	return own
}

// reportSent names mirrors whose registry can get the credentials of the source. It does when it asks for a token or
// refuses the header: containerd then takes what came with the pull (AddResponses of its authorizer), and that is the
// source's.
func (r *report) reportSent(m mirror, own credential, sources []repository, known []credential) {
	for _, s := range sources {
		for _, c := range known {
			related := within(s.path, c.scope.path) || within(c.scope.path, s.path)
			if c.basic == "" || c.same(own) || !c.isFor(s.host) || !related {
				continue
			}
			r.add(m.at, SourceCredentialsSent, "the pull secret has credentials for this mirror (%s) and others for source %s (%s). A mirror that takes a password at once gets its own; "+
				"one that asks for a token gets those of the source from containerd, and refuses them. Then give both the same account, or remove the source's entry if it can do without.", own.key, s, c.key)
			return
		}
	}
}

// reportWild names mirrors for which there are credentials under a wildcard only. Which of several holds, nobody says.
func (r *report) reportWild(m mirror, known []credential) {
	for _, c := range known {
		if c.wild() && c.isFor(m.repositories[0].host) {
			r.add(m.at, CredentialsUnsupported, "the pull secret has credentials for this mirror only under a wildcard (%s), which is for sources. "+
				"Windows nodes ask the mirror without credentials; add an entry with its own name.", c.key)
			return
		}
	}
}
