package instance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/addresses"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/remote"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// connection is a connected host. It returns the errors of package join and counts its usage when it closes.
type connection struct {
	SSHHost
	metrics *metrics
}

func (c *connection) address() netip.Addr {
	_, at := c.Server()
	return at
}

// Dial connects to a host by SSH.
func Dial(ctx context.Context, t remote.Target, o remote.Options) (SSHHost, error) {
	host, err := remote.Dial(ctx, t, o)
	if err != nil {
		return nil, err
	}
	return sshHost{host}, nil
}

type sshHost struct{ *remote.Host }

// Files calls use with the host's files.
func (h sshHost) Files(ctx context.Context, use func(wicdapi.Files) error) error {
	return h.Host.Files(ctx, func(f *remote.Files) error { return use(f) })
}

// dial connects to the host of an instance. It requires the host key of the spec, or else the pinned one. At first contact, it accepts any key if
// trust allows that.
func (c *Controller) dial(ctx context.Context, i *v1alpha1.WindowsInstance, key ssh.Signer, trust v1alpha1.Trust) (*connection, error) {
	host, err := c.connect(ctx, i, key, trust)
	c.metrics.connections.WithLabelValues(resultOf(err)).Inc()
	return host, err
}

// resultOf returns the result of a connection attempt for metrics: a reason of condition Reachable.
func resultOf(err error) string {
	var u *join.Unreachable
	switch {
	case err == nil:
		return api.ReasonConnected
	case errors.As(err, &u) && u.Reason != "":
		return u.Reason
	}
	return "Other"
}

func (c *Controller) connect(ctx context.Context, i *v1alpha1.WindowsInstance, key ssh.Signer, trust v1alpha1.Trust) (*connection, error) {
	pinned, err := pinnedKey(i)
	if err != nil {
		return nil, err
	}
	lookup := func(ctx context.Context, _, name string) ([]netip.Addr, error) {
		ips, err := c.Resolver.Lookup(ctx, name)
		if err != nil {
			return nil, err
		}
		return ips, c.checkAddresses(ctx, i, ips...)
	}
	if ip, err := netip.ParseAddr(i.Spec.Address); err == nil { // an IP address, which needs no lookup
		if err := c.checkAddresses(ctx, i, ip); err != nil {
			return nil, err
		}
	} else if reason := (addresses.Cluster{}).RefuseName(i.Spec.Address); reason != "" {
		return nil, addressRejected(i, fmt.Errorf("the name %s", reason))
	}
	host, err := c.Dialer(ctx, remote.Target{
		Address: i.Spec.Address,
		Port:    int(i.Spec.Port),
		User:    i.Spec.Username,
		Key:     key,
		HostKey: pinned, KnownOnly: trust == v1alpha1.TrustPinned,
	}, remote.Options{Lookup: lookup})
	if err != nil {
		return nil, unreachable(err)
	}
	return &connection{host, c.metrics}, nil
}

// checkAddresses rejects addresses that no Windows host can have, before the operator connects to any of them. Claims of Nodes and Services are ignored
// for hosts that prove their identity, so that they cannot prevent a node from being managed.
func (c *Controller) checkAddresses(ctx context.Context, i *v1alpha1.WindowsInstance, ips ...netip.Addr) error {
	var current addresses.Cluster
	isUnknown := i.Status.HostKey == ""
	if isUnknown || !isTrusted(i) {
		var err error
		if current, err = c.Reserved.Live(ctx, i.Status.Hostname, time.Now()); err != nil {
			return &join.Unready{Err: fmt.Errorf("%w: %w", join.ErrCluster, err)}
		}
	}
	if isTrusted(i) {
		current = current.WithoutClaims()
		c.recordClaims(ctx, i, ips...)
	}
	if !isUnknown {
		current = addresses.Cluster{Claimed: current.Claimed, Released: current.Released, Uncounted: current.Uncounted}
	}
	for _, ip := range ips {
		if reason := current.Refuse(ip); reason != "" {
			return addressRejected(i, fmt.Errorf("%s %s", ip, reason))
		}
	}
	return nil
}

// addressRejected returns the error for an address to which the operator does not connect.
func addressRejected(i *v1alpha1.WindowsInstance, reason error) error {
	return &join.Unreachable{Reason: api.ReasonAddressInvalid, Err: fmt.Errorf(
		"not connecting to spec.address %s: %w; or delete this WindowsInstance, and add the host with the address that it has in its own network",
		i.Spec.Address, reason)}
}

// isTrusted reports whether a host proves its identity: by the key that a user specified, or by the key that it had when it got a token. The operator
// sends nothing to a machine with another key.
func isTrusted(i *v1alpha1.WindowsInstance) bool {
	return i.Spec.HostKey != "" || i.Status.HostKey != "" && (i.Status.HostnameFixed || i.Status.NodeRef != nil)
}

// recordClaims records an event if a Service claims the address of a host that proves its identity.
func (c *Controller) recordClaims(ctx context.Context, i *v1alpha1.WindowsInstance, ips ...netip.Addr) {
	var current addresses.Cluster
	if err := c.Reserved.AddServices(ctx, &current); err != nil {
		return // the cache is shutting down
	}
	for _, ip := range ips {
		if claimant := current.Claimed[ip]; claimant != "" {
			c.Events.Emit(kube.Event{Object: i, Type: corev1.EventTypeWarning, Reason: api.EventAddressDisputed, Action: "Connect"},
				"the host's address %s is also in %s, whose pods may answer in place of the host, without its key; remove it there, or give the host another address", ip, claimant)
		}
	}
}

// checkClaims returns an error if a Service claims the address at which the host was reached. It is called before the host gets a token, because a
// Service may have been created meanwhile, or have existed when the operator connected.
func (a *attempt) checkClaims(ctx context.Context) error {
	i := a.view.Instance
	if isTrusted(i) || a.host == nil {
		return nil
	}
	current, err := a.Reserved.Live(ctx, i.Status.Hostname, a.connected)
	if err != nil {
		return fmt.Errorf("%w: %w", join.ErrCluster, err)
	}
	if reason := current.RefuseClaimed(a.host.address()); reason != "" {
		return addressRejected(i, fmt.Errorf("%s %s", a.host.address(), reason))
	}
	return nil
}

func pinnedKey(i *v1alpha1.WindowsInstance) (ssh.PublicKey, error) {
	text, field := i.Spec.HostKey, "spec.hostKey"
	if text == "" {
		text, field = i.Status.HostKey, "status.hostKey"
	}
	if text == "" {
		return nil, nil
	}
	key, err := remote.ParseHostKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return key, nil
}

// Run runs a command on the host.
func (c *connection) Run(ctx context.Context, command string, stdin io.Reader, stdout io.Writer) error {
	return unreachable(c.SSHHost.Run(ctx, command, stdin, stdout))
}

// Put puts a file on the host.
func (c *connection) Put(ctx context.Context, name string, content io.Reader, size int64) error {
	return unreachable(c.SSHHost.Put(ctx, name, content, size))
}

// Files calls use with the host's files.
func (c *connection) Files(ctx context.Context, use func(wicdapi.Files) error) error {
	return unreachable(c.SSHHost.Files(ctx, use))
}

// Close closes the connection and counts its usage.
func (c *connection) Close() error {
	c.metrics.connection(c.Usage())
	return c.SSHHost.Close()
}

// unreachable converts connection errors to the reasons that users see.
func unreachable(err error) error {
	var refused *join.Unreachable
	var unready *join.Unready
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &unready):
		return unready
	}
	var e *remote.Error
	if !errors.As(err, &e) {
		return err
	}
	if e.HostKey != nil {
		err = fmt.Errorf("%w; to accept it, set spec.hostKey of the WindowsInstance to %q", err, remote.FormatHostKey(e.HostKey))
	}
	return &join.Unreachable{Reason: string(e.Kind), Err: err}
}
