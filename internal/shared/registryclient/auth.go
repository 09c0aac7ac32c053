package registryclient

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
)

// Limits of tokens: the size of responses and tokens, and the lifetime of a token without an expiry.
const (
	maxTokenResponse = 64 << 10
	maxToken         = 32 << 10
	tokenLasts       = 60 * time.Second
	tokenMargin      = 10 * time.Second
)

// tokenKey is the scope of a token: a repository of a host, and an account, of which only the hash is stored. A password applies to all
// repositories with that account.
type tokenKey struct {
	scheme, host, repository string
	account                  [sha256.Size]byte
}

// authorized sends a request with the authorization that the registry requires: a token of its authority, or a password.
func (c *Client) authorized(ctx context.Context, q Request, a mirrors.Attempt, k call) (*http.Response, error) {
	credential, _ := c.keyring.For(a.Name)
	if a.IsSource && q.User != "" { // those of the pod or of the kubelet for the image
		credential = mirrors.Credential{User: q.User, Password: q.Password}
	}
	key := tokenKey{k.url.Scheme, a.Host, a.Repository, sha256.Sum256([]byte(credential.User + "\x00" + credential.Password + "\x00" + credential.IdentityToken))}
	everywhere := key
	everywhere.repository = ""
	token, found := c.tokens.Get(key)
	if !found {
		token, _ = c.tokens.Get(everywhere)
	}
	k.authorization, _ = token.(string)
	response, err := c.sendFirst(ctx, &k, credential)
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusUnauthorized && response.Request.URL.Host == k.url.Host {
		challenges := response.Header.Values("WWW-Authenticate")
		discard(response)
		c.tokens.Remove(key)
		rejected := k.authorization
		var validFor time.Duration
		if k.authorization, validFor, err = c.authorize(ctx, a, k, credential, challenges); err != nil {
			return nil, err
		}
		if k.authorization == rejected {
			c.tokens.Remove(everywhere)
			k.authorization, validFor = "", 0 // an anonymous request may be allowed where a wrong password is not
		}
		if response, err = c.send(ctx, k); err != nil {
			return nil, err
		}
		if response.StatusCode != http.StatusUnauthorized && validFor > 0 {
			if strings.HasPrefix(k.authorization, "Basic ") {
				key = everywhere
			}
			c.tokens.Add(key, k.authorization, validFor)
		}
	}
	if err := checkStatus(response, k.request.Method); err != nil {
		discard(response)
		return nil, err
	}
	return response, nil
}

// sendFirst sends the first request, with a password if PasswordFirst is set and k has no authorization. It sets that of k to what was sent.
func (c *Client) sendFirst(ctx context.Context, k *call, credential mirrors.Credential) (*http.Response, error) {
	withPassword := k.authorization == "" && c.passwordFirst && k.url.Scheme == "https" && !k.trust.insecure && credential.User != "" && credential.IdentityToken == ""
	if withPassword {
		k.authorization = basic(credential)
	}
	response, err := c.send(ctx, *k)
	if err == nil && withPassword && (response.StatusCode == http.StatusBadRequest || response.StatusCode == http.StatusForbidden) {
		discard(response) // the registry may accept tokens only, and name its authority to anonymous clients
		k.authorization = ""
		return c.send(ctx, *k)
	}
	return response, err
}

// authorize returns the header for the first usable challenge, and how long it is valid.
func (c *Client) authorize(ctx context.Context, a mirrors.Attempt, k call, credential mirrors.Credential, challenges []string) (header string, validFor time.Duration, err error) {
	for _, text := range challenges {
		scheme, parameters := parseChallenge(text)
		switch {
		case scheme == "bearer":
			token, validFor, err := c.fetchToken(ctx, a, k, credential, parameters)
			return "Bearer " + token, validFor, err
		case scheme == "basic" && credential.User != "":
			return basic(credential), remembered, nil
		}
	}
	return "", 0, ErrUnauthorized
}

func basic(c mirrors.Credential) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(c.User+":"+c.Password))
}

// parseChallenge parses the first challenge of a header WWW-Authenticate (RFC 9110): its scheme, and its parameters in lower case.
func parseChallenge(text string) (scheme string, parameters map[string]string) {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	parameters = map[string]string{}
	for len(parameters) < 16 {
		name, after, found := strings.Cut(strings.TrimLeft(rest, " \t,"), "=")
		if !found || strings.ContainsAny(name, " \"") {
			break
		}
		var value string
		if value, rest = cutValue(after); len(value) <= 2048 {
			parameters[strings.ToLower(strings.TrimSpace(name))] = value
		}
	}
	return strings.ToLower(scheme), parameters
}

// cutValue cuts a token or a quoted string off the text.
func cutValue(text string) (value, rest string) {
	quoted, isQuoted := strings.CutPrefix(strings.TrimLeft(text, " \t"), `"`)
	if !isQuoted {
		value, rest, _ = strings.Cut(text, ",")
		return strings.TrimSpace(value), rest
	}
	var b strings.Builder
	for i := 0; i < len(quoted); i++ {
		switch {
		case quoted[i] == '"':
			return b.String(), quoted[i+1:]
		case quoted[i] == '\\' && i+1 < len(quoted):
			i++
		}
		b.WriteByte(quoted[i])
	}
	return b.String(), ""
}

// fetchToken requests a pull token from the authority that a registry names. The authority receives only the registry's own credentials, which
// the registry may have anyway. It does not follow redirects.
func (c *Client) fetchToken(ctx context.Context, a mirrors.Attempt, k call, credential mirrors.Credential, parameters map[string]string) (string, time.Duration, error) {
	realm, err := url.Parse(parameters["realm"])
	if err != nil || realm.Host == "" || realm.User != nil || realm.Scheme != "https" && (realm.Scheme != "http" || k.url.Scheme != "http") {
		return "", 0, errors.New("the URL of the token server is not secure")
	}
	query := realm.Query()
	if parameters["service"] != "" {
		query.Set("service", parameters["service"])
	}
	query.Set("scope", "repository:"+a.Repository+":pull")
	hop := c.hop(k, k.url, realm)
	hop.IsTokenServer = true
	if err := c.check(ctx, hop); err != nil {
		return "", 0, err
	}
	r, err := c.tokenRequest(ctx, realm, query, credential)
	if err != nil {
		return "", 0, errors.New("the URL of the token server is not valid")
	}
	response, err := c.transport(k.trust).RoundTrip(r)
	if err != nil {
		return "", 0, fmt.Errorf("requesting a token from %.128s: %w", realm.Host, err)
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusUnauthorized, response.StatusCode == http.StatusForbidden:
		return "", 0, ErrUnauthorized
	case response.StatusCode != http.StatusOK:
		return "", 0, fmt.Errorf("token server %.128s responded with status %d", realm.Host, response.StatusCode)
	}
	return readToken(io.LimitReader(response.Body, maxTokenResponse))
}

// tokenRequest returns a GET, with a password if there is one, or a POST with an identity token (distribution/docs/spec/auth).
func (c *Client) tokenRequest(ctx context.Context, realm *url.URL, query url.Values, credential mirrors.Credential) (*http.Request, error) {
	if credential.IdentityToken != "" {
		query.Set("grant_type", "refresh_token")
		query.Set("refresh_token", credential.IdentityToken)
		query.Set("client_id", c.agent)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, realm.String(), strings.NewReader(query.Encode()))
		if err == nil {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		return r, err
	}
	at := *realm
	at.RawQuery = query.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err == nil && credential.User != "" {
		r.SetBasicAuth(credential.User, credential.Password)
	}
	return r, err
}

// readToken parses an authority's response.
func readToken(body io.Reader) (token string, validFor time.Duration, err error) {
	var current struct {
		Token       string  `json:"token"`
		AccessToken string  `json:"access_token"`
		ExpiresIn   float64 `json:"expires_in"`
	}
	if err := json.NewDecoder(body).Decode(&current); err != nil {
		return "", 0, errors.New("the token server returned no valid token")
	}
	token = current.Token
	if token == "" {
		token = current.AccessToken
	}
	if token == "" || len(token) > maxToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", 0, errors.New("the token server returned no valid token")
	}
	validFor = tokenLasts
	if current.ExpiresIn > 0 {
		validFor = time.Duration(min(current.ExpiresIn, remembered.Seconds()) * float64(time.Second))
	}
	return token, max(validFor-tokenMargin, 0), nil
}
