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

// Credential authenticates to a registry.
type Credential struct {
	User, Password string
	// IdentityToken replaces a password; the registry's authorization server exchanges it for access (OAuth 2,
	// refresh_token).
	IdentityToken string
}

// dockerConfig is the part of a .dockerconfigjson that the kubelet reads (pkg/credentialprovider/config.go).
type dockerConfig struct {
	Auths       map[string]json.RawMessage `json:"auths"`
	HTTPHeaders map[string]string          `json:"HttpHeaders,omitempty"`
}

// keyringEntry makes decoding fail if any entry is invalid, even the first of two with the same key, as in the kubelet.
type keyringEntry struct{ Credential }

// UnmarshalJSON implements json.Unmarshaler.
func (e *keyringEntry) UnmarshalJSON(text []byte) error {
	var err error
	e.Credential, err = readCredential(text)
	return err
}

// readPullSecret renders the kubelet's config.json: the secret unchanged if possible. The kubelet rejects the whole file
// for one invalid entry, so invalid entries are removed.
func (r *report) readPullSecret(s PullSecret) (kubeletConfig string) {
	if s.Name == "" && len(s.DockerConfigJSON) == 0 {
		return ""
	}
	at := place{kind: "Secret", name: s.Name, field: "data[.dockerconfigjson]"}
	var config dockerConfig
	if err := json.Unmarshal(s.DockerConfigJSON, &config); err != nil { // the error may quote the input
		r.add(at, InvalidPullSecret, `not JSON of the form {"auths": {"<registry>": {"auth": "<base64 of user:password>"}}}. `+
			"Windows nodes pull without credentials until it is corrected.")
		return ""
	}
	for _, key := range slices.Sorted(maps.Keys(config.Auths)) {
		at := at.in(fmt.Sprintf(".auths[%s]", quoted(key)))
		if _, err := readCredential(config.Auths[key]); err != nil {
			r.add(at, InvalidPullSecret, "%v. Windows nodes ignore this entry.", err)
			delete(config.Auths, key)
			continue
		}
		if _, ok := readKey(key); !ok && !strings.ContainsAny(key, "*?") { // the kubelet supports wildcards
			r.add(at, InvalidPullSecret, "the key is not a registry or repository such as quay.io or quay.io/team; this entry is used for no image.")
		}
	}
	content := s.DockerConfigJSON
	var all struct {
		Auths map[string]keyringEntry `json:"auths"`
	}
	if json.Unmarshal(content, &all) != nil {
		content, _ = json.MarshalIndent(config, "", "  ") // already parsed above
	}
	return string(content)
}

// readCredential accepts what the kubelet accepts; its error contains no part of the entry.
func readCredential(text json.RawMessage) (Credential, error) {
	var e struct{ Username, Password, Email, Auth, IdentityToken string }
	if err := json.Unmarshal(text, &e); err != nil {
		return Credential{}, errors.New("the entry is not an object of strings; it must have auth, or username and password")
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

// Keyring finds the credentials of registries by the rules of containers-auth.json(5).
type Keyring struct{ entries map[string]Credential }

// ReadKeyring reads the pull secret rendered by Render. Invalid parts are ignored.
func ReadKeyring(dockerConfigJSON []byte) Keyring {
	var config dockerConfig
	_ = json.Unmarshal(dockerConfigJSON, &config) // Render has checked it, and the error may quote a password
	k := Keyring{entries: map[string]Credential{}}
	// Of two equivalent keys, the one with the shortest spelling wins.
	keys := slices.SortedFunc(maps.Keys(config.Auths), func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(b, a)) })
	for _, key := range keys {
		c, err := readCredential(config.Auths[key])
		if scope, ok := readKey(key); ok && err == nil {
			k.entries[scope.String()] = c
		}
	}
	return k
}

// For returns the credential of the longest entry that covers the name at the registry that is contacted. ok is false if
// there is none, or it is empty.
func (k Keyring) For(n Name) (c Credential, ok bool) {
	n.Registry = account(n.Registry)
	for rest := n.String(); rest != ""; rest = rest[:max(strings.LastIndexByte(rest, '/'), 0)] {
		if c, found := k.entries[rest]; found {
			if c.User == "" && c.IdentityToken == "" {
				return Credential{}, false
			}
			return c, true
		}
	}
	return Credential{}, false
}

// readKey reads a key of the pull secret: a host and a path. A scheme, and /v1/ or /v2/ before the path, are ignored, as
// by the kubelet (pkg/credentialprovider/keyring.go).
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
	if !validHost(host) || path != "" && !pathPattern.MatchString(path) {
		return repository{}, false
	}
	return repository{host: account(host), path: path}, true
}

// account returns the name under which the credentials for a host are stored: those for Docker Hub are stored under
// https://index.docker.io/v1/.
func account(host string) string {
	if host == dockerHubOld || host == dockerHubRegistry {
		return dockerHub
	}
	return host
}
