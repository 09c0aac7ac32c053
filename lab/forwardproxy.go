//go:build linux

package lab

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/crypto/bcrypt"

	"github.com/windows-machine-config/wmco/lab/windows/hostspec"
)

const (
	squidProgram = "/usr/sbin/squid"
	squidHelper  = "/usr/lib/squid/basic_ncsa_auth"
	squidUser    = "proxy" // Debian's user for squid
)

// CanRunForwardProxy returns an error if this machine cannot run a ForwardProxy.
func CanRunForwardProxy() error {
	return errors.Join(findService(squidProgram, "squid"), findService(squidHelper, "squid"))
}

// A ForwardProxy is Debian's squid, on the lab's address. Hosts reach anything beyond that address only through it. It requires a
// user and a password.
type ForwardProxy struct {
	*service
	// User and Password are those in the URL.
	User, Password string

	address string
}

// StartForwardProxy starts a proxy, which ends with the lab. Only the proxy knows the addresses of the names given.
func (l *Lab) StartForwardProxy(ctx context.Context, names map[string]string) (*ForwardProxy, error) {
	p, err := l.newForwardProxy(names)
	if err != nil {
		return nil, fmt.Errorf("preparing a proxy: %w", err)
	}
	return p, p.Start(ctx)
}

func (l *Lab) newForwardProxy(names map[string]string) (*ForwardProxy, error) {
	port, err := FreePort(l.Address())
	if err != nil {
		return nil, err
	}
	p := &ForwardProxy{address: net.JoinHostPort(l.Address(), strconv.Itoa(port)), User: "traveler", Password: rand.Text()}
	if p.service, err = l.newService(squidProgram); err != nil {
		return nil, err
	}
	p.command, p.answers = []string{"-N", "-f", hostspec.ServiceFolder + "/squid.conf"}, listens(p.address)
	password, err := bcrypt.GenerateFromPassword([]byte(p.Password), bcrypt.MinCost)
	if err != nil {
		return nil, fmt.Errorf("hashing the password: %w", err)
	}
	var hosts strings.Builder
	for _, name := range slices.Sorted(maps.Keys(names)) {
		fmt.Fprintf(&hosts, "%s %s\n", names[name], name)
	}
	err = p.write(map[string][]byte{
		"hosts": []byte(hosts.String()), "users": []byte(p.User + ":" + string(password) + "\n"),
		"squid.conf": fmt.Appendf(nil, squidConfig, hostspec.ServiceFolder, p.address, squidHelper),
	})
	if err != nil {
		return nil, err
	}
	return p, p.changeOwner(squidUser)
}

// squidConfig disables the cache; only the log is kept. See squid.conf.documented of Debian's package.
const squidConfig = `http_port %[2]s
visible_hostname lab
hosts_file %[1]s/hosts
auth_param basic program %[3]s %[1]s/users
auth_param basic children 1 startup=1
acl known proxy_auth REQUIRED
http_access allow known
http_access deny all
cache deny all
logformat lab %%>a %%un %%rm %%ru %%>Hs
access_log stdio:%[1]s/access.log lab
cache_log %[1]s/cache.log
netdb_filename none
pid_filename none
coredump_dir none
`

// URL returns the proxy's URL with user and password.
func (p *ForwardProxy) URL() string {
	return (&url.URL{Scheme: "http", User: url.UserPassword(p.User, p.Password), Host: p.address}).String()
}

// A ProxyRequest is an entry of the proxy's access log.
type ProxyRequest struct {
	// From is the address of the client, User the user that it authenticated as ("-" for none).
	From, User string
	// Method is CONNECT for TLS; then Target is host:port.
	Method, Target string
	Status         int
}

// noMethod marks a connection without a request, as listens makes.
const noMethod = "-"

// Requests returns all requests so far. Tunnels appear when they are closed.
func (p *ForwardProxy) Requests() ([]ProxyRequest, error) {
	text, err := os.ReadFile(p.path("access.log"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the proxy's log: %w", err)
	}
	var all []ProxyRequest
	for line := range strings.Lines(string(text)) {
		var one ProxyRequest
		if _, err := fmt.Sscan(line, &one.From, &one.User, &one.Method, &one.Target, &one.Status); err != nil {
			return nil, fmt.Errorf("reading the proxy's log, line %q: %w", line, err)
		}
		if one.Method != noMethod {
			all = append(all, one)
		}
	}
	return all, nil
}
