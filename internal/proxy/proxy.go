// Package proxy says, purely, with which environment the services of a Windows node reach the world through an egress
// proxy, and what they reach without it.
//
// containerd and the kubelet read the variables as Go does (net/http.ProxyFromEnvironment, which is
// golang.org/x/net/http/httpproxy), once, when they start. What Go cannot read it ignores without a word: a broken URL
// is no proxy, and an entry of NO_PROXY that it does not know sends what lies inside the cluster out of it. So
// everything is checked here, and what is wrong is an error.
package proxy

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// The variables. Windows does not tell upper from lower case in their names, so these are http_proxy and so on, too.
const (
	HTTPProxy  = "HTTP_PROXY"
	HTTPSProxy = "HTTPS_PROXY"
	NoProxy    = "NO_PROXY"
)

// longest is how many characters a variable of Windows can hold (SetEnvironmentVariable).
const longest = 32767

// Config is what an object of the cluster says about the proxy. All of it may be empty.
type Config struct {
	// Object and Path say for messages where this was read, for example "Proxy cluster" and "status".
	Object, Path string
	// HTTPProxy and HTTPSProxy are the URLs of the proxies for http and for https, with or without user and password.
	HTTPProxy, HTTPSProxy string
	// NoProxy is what to reach without proxy, with commas in between. Each entry is an address, a range, or the name of
	// a host, which means its subdomains, too; with a dot in front, only these. * is everything.
	NoProxy string
}

// Inside is what a node never reaches through a proxy.
type Inside struct {
	// Networks are the ranges of pods and services, and ranges or addresses of machines. What lies in a range that is
	// listed anyway is left out, so that a node that comes into it changes nothing on the others.
	Networks []string
	// APIServer is the host, without port, at which nodes reach the API server.
	APIServer string
	// Domain of the cluster, cluster.local.
	Domain string
}

// Hosts are those to which programs with these variables connect, with their ports where the URLs have some.
func Hosts(environment map[string]string) (hosts []string) {
	for _, variable := range []string{HTTPProxy, HTTPSProxy} {
		u, err := url.Parse(environment[variable])
		if err != nil || u.Scheme == "" || u.Host == "" {
			u, err = url.Parse("http://" + environment[variable]) // as Go reads them
		}
		if err == nil && u.Host != "" {
			hosts = append(hosts, u.Host)
		}
	}
	return hosts
}

// Render gives the variables that services need. Those in secret hold a user or password; no name is in both. Without
// proxy, or when nothing may go through it, both are empty. The order in NO_PROXY is the user's, then ours sorted. The
// error names all fields that are wrong, and never shows a password.
func Render(c Config, inside Inside) (plain, secret map[string]string, err error) {
	plain, secret = map[string]string{}, map[string]string{}
	var errs []error
	for _, p := range []struct{ variable, field, value string }{
		{HTTPProxy, "httpProxy", c.HTTPProxy},
		{HTTPSProxy, "httpsProxy", c.HTTPSProxy},
	} {
		value := strings.Trim(p.value, " ")
		hasUser, err := checkURL(value)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %s.%s %w", c.Object, c.Path, p.field, err))
		case hasUser:
			secret[p.variable] = value
		case value != "":
			plain[p.variable] = value
		}
	}
	without, err := exceptions(c.NoProxy, inside)
	if err != nil {
		errs = append(errs, fmt.Errorf("%s: %s.noProxy %w", c.Object, c.Path, err))
	}
	switch {
	case len(errs) > 0:
		return nil, nil, errors.Join(errs...)
	case len(plain)+len(secret) == 0 || without == everything:
		return map[string]string{}, map[string]string{}, nil
	}
	plain[NoProxy] = without
	return plain, secret, nil
}

// checkURL says what is wrong with the URL of a proxy, and whether it names a user. It shows nothing of the URL: where
// that is broken, nobody can tell which part was meant to be the password.
func checkURL(value string) (hasUser bool, err error) {
	if value == "" {
		return false, nil
	}
	u, err := url.Parse(value) // fails for control characters
	switch {
	case err != nil:
		return false, errors.New("is not a URL; write http://host:port, and %-encode special characters of user and password")
	case u.Scheme != "http" && u.Scheme != "https":
		return false, errors.New("does not begin with http:// or https://; other kinds of proxies, such as socks5, are not supported")
	case !isHost(u.Hostname()) && !isAddress(u.Hostname()):
		return false, errors.New("has no valid host; write http://host:port")
	case strings.HasSuffix(u.Host, ":") || u.Port() != "" && !isPort(u.Port()):
		return false, errors.New("has no valid port; write http://host:port with a port from 1 to 65535")
	case u.Path != "" && u.Path != "/" || strings.ContainsAny(value, "?#"):
		return false, errors.New("has something after host and port; write http://host:port, and %-encode special characters of user and password")
	}
	return u.User != nil, nil
}

// Changed gives the names, sorted, of the variables that are not the same in both: other, new or gone. Plain and secret
// variables are to be merged before.
func Changed(from, to map[string]string) []string {
	names := map[string]bool{}
	for _, pair := range [][2]map[string]string{{from, to}, {to, from}} {
		for name, value := range pair[0] {
			if other, there := pair[1][name]; !there || other != value {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}
