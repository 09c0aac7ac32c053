package mirrors

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Credential is what a registry wants to know.
type Credential struct {
	User, Password string
	// IdentityToken stands in place of a password; a registry's authority gives access for it (OAuth 2, refresh_token).
	IdentityToken string
}

// dockerConfig is as much of a .dockerconfigjson as the kubelet reads (pkg/credentialprovider/config.go).
type dockerConfig struct {
	Auths       map[string]json.RawMessage `json:"auths"`
	HTTPHeaders map[string]string          `json:"HttpHeaders,omitempty"`
}

// keyringEntry lets one entry that cannot be read, also the first of two with the same key, fail all of them, as the
// kubelet does.
type keyringEntry struct{ Credential }

// UnmarshalJSON implements json.Unmarshaler.
func (e *keyringEntry) UnmarshalJSON(text []byte) error {
	var err error
	e.Credential, err = readCredential(text)
	return err
}

// readPullSecret renders the kubelet's config.json: the secret as it is. The kubelet refuses the whole file when it
// cannot read one entry of it, so such an entry is left out.
func (r *report) readPullSecret(s PullSecret) (kubeletConfig string) {
	if s.Name == "" && len(s.DockerConfigJSON) == 0 {
		return ""
	}
	at := place{kind: "Secret", name: s.Name, field: "data[.dockerconfigjson]"}
	var config dockerConfig
	if err := json.Unmarshal(s.DockerConfigJSON, &config); err != nil { // its text may quote what it read
		r.add(at, InvalidPullSecret, `it is not JSON of the form {"auths": {"<registry>": {"auth": "<base64 of user:password>"}}}. `+
			"Windows nodes pull without credentials until it is.")
		return ""
	}
	for _, key := range slices.Sorted(maps.Keys(config.Auths)) {
		at := at.in(fmt.Sprintf(".auths[%s]", shown(key)))
		if _, err := readCredential(config.Auths[key]); err != nil {
			r.add(at, InvalidPullSecret, "%v. On Windows nodes this entry is left out.", err)
			delete(config.Auths, key)
			continue
		}
		if _, ok := readKey(key); !ok && !strings.ContainsAny(key, "*?") { // wildcards are the kubelet's
			r.add(at, InvalidPullSecret, "the key is not a registry or a repository, as in quay.io or quay.io/team; no image is pulled with this entry.")
		}
	}
	content := s.DockerConfigJSON
	var all struct {
		Auths map[string]keyringEntry `json:"auths"`
	}
	if json.Unmarshal(content, &all) != nil {
		content, _ = json.MarshalIndent(config, "", "  ") // of what was just read
	}
	return string(content)
}

// readCredential takes what the kubelet takes; what it says holds no part of the entry.
func readCredential(text json.RawMessage) (Credential, error) {
	var e struct{ Username, Password, Email, Auth, IdentityToken string }
	if err := json.Unmarshal(text, &e); err != nil {
		return Credential{}, errors.New("it is not an object of strings; auth is needed, or username and password")
	}
	if e.Auth != "" {
		encoding := base64.RawStdEncoding
		if strings.HasSuffix(strings.TrimSpace(e.Auth), "=") {
			encoding = base64.StdEncoding
		}
		pair, err := encoding.DecodeString(e.Auth)
		user, password, ok := strings.Cut(string(pair), ":")
		if err != nil || !ok {
			return Credential{}, errors.New("auth is not the base64 of user:password")
		}
		e.Username, e.Password = user, strings.Trim(password, "\x00")
	}
	return Credential{User: e.Username, Password: e.Password, IdentityToken: e.IdentityToken}, nil
}

// Keyring finds the credentials of registries, by the rules of containers-auth.json(5).
type Keyring struct{ entries map[string]Credential }

// ReadKeyring reads what Render made of a pull secret. What cannot be read of it is left out.
func ReadKeyring(dockerConfigJSON []byte) Keyring {
	var config dockerConfig
	_ = json.Unmarshal(dockerConfigJSON, &config) // it was checked by Render, and its error may quote a password
	k := Keyring{entries: map[string]Credential{}}
	// Of two keys that mean the same, the one that is written in its shortest form counts.
	keys := slices.SortedFunc(maps.Keys(config.Auths), func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(b, a)) })
	for _, key := range keys {
		c, err := readCredential(config.Auths[key])
		if scope, ok := readKey(key); ok && err == nil {
			k.entries[scope.String()] = c
		}
	}
	return k
}

// For is the credential of the longest entry that holds a name, as of the place that is asked. ok is false when there is
// none, or it says nothing.
func (k Keyring) For(n Name) (c Credential, ok bool) {
	n.Registry = account(n.Registry)
	for rest := n.String(); rest != ""; rest = rest[:max(strings.LastIndexByte(rest, '/'), 0)] {
		if c, there := k.entries[rest]; there {
			if c.User == "" && c.IdentityToken == "" {
				return Credential{}, false
			}
			return c, true
		}
	}
	return Credential{}, false
}

// readKey reads a key of the pull secret: a host and a path; a scheme and /v1/ or /v2/ before the path count for nothing,
// as they do for the kubelet (pkg/credentialprovider/keyring.go).
func readKey(key string) (repository, bool) {
	key = strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://")
	host, path, _ := strings.Cut(key, "/")
	for _, version := range []string{"v1", "v2"} {
		if path == version || strings.HasPrefix(path, version+"/") {
			path = strings.TrimPrefix(strings.TrimPrefix(path, version), "/")
			break
		}
	}
	path = strings.TrimSuffix(path, "/")
	host = strings.ToLower(host)
	if !validHost(host) || path != "" && !validPath(path) {
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
