// Package proxy computes the environment variables with which the services of a Windows node use an egress proxy, and
// what they reach without it. It has no I/O.
//
// containerd and the kubelet read the variables as Go does (net/http.ProxyFromEnvironment, which is
// golang.org/x/net/http/httpproxy), once, when they start. Go silently ignores what it cannot parse: an invalid URL
// means no proxy, and an unknown entry of NO_PROXY sends cluster traffic to the proxy. Therefore everything is checked
// here, and invalid values are errors.
package proxy

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Names of the variables. Windows ignores the case of names, so these are also http_proxy and so on.
const (
	HTTPProxy  = "HTTP_PROXY"
	HTTPSProxy = "HTTPS_PROXY"
	NoProxy    = "NO_PROXY"
)

// longest is the maximum number of characters of a variable in Windows (SetEnvironmentVariable).
const longest = 32767

// Config is the proxy configuration of an object in the cluster. All of it may be empty.
type Config struct {
	// Object and Path name the source for messages, for example "Proxy cluster" and "status".
	Object, Path string
	// HTTPProxy and HTTPSProxy are the URLs of the proxies for http and https, with optional user and password.
	HTTPProxy, HTTPSProxy string
	// NoProxy lists what to reach without proxy, separated by commas. Each entry is an address, a range, or a host name,
	// which includes its subdomains; with a leading dot, only these. * is everything.
	NoProxy string
}

// Inside is what a node never reaches through a proxy.
type Inside struct {
	// Networks are the ranges of pods and services, and ranges or addresses of machines. Entries within listed ranges are
	// omitted, so that a new node in such a range changes nothing on other nodes.
	Networks []string
	// APIServer is the host, without port, at which nodes reach the API server.
	APIServer string
	// Domain of the cluster, such as cluster.local.
	Domain string
}

// Hosts returns the proxy hosts to which programs with these variables connect, with the ports in the URLs.
func Hosts(environment map[string]string) (hosts []string) {
	for _, variable := range []string{HTTPProxy, HTTPSProxy} {
		u, err := url.Parse(environment[variable])
		if err != nil || u.Scheme == "" || u.Host == "" {
			u, err = url.Parse("http://" + environment[variable]) // as Go parses them
		}
		if err == nil && u.Host != "" {
			hosts = append(hosts, u.Host)
		}
	}
	return hosts
}

// Render returns the variables that services need. Those in secret contain a user or password; no name is in both maps.
// Both are empty without proxy, or if nothing may go through it. NO_PROXY has the user's entries in their order, then
// the operator's, sorted. The error names all invalid fields, and never shows a password.
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

// Check rejects what is not the URL of a proxy, or empty. The error follows the name of what has the URL, and shows nothing of it.
func Check(proxyURL string) error {
	_, err := checkURL(proxyURL)
	return err
}

// checkURL returns whether the URL of a proxy contains a user, or what is wrong with it. The error shows nothing of the
// URL: in an invalid one, the password cannot be located.
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
