package instance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"golang.org/x/crypto/ssh"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/addresses"
	"github.com/windows-machine-config/wmco/internal/join"
	"github.com/windows-machine-config/wmco/internal/remote"
)

// connection is a machine whose failures are those of package join, and which is counted when it closes.
type connection struct {
	SSHHost
	metrics *metrics
}

// Dial connects to a host by SSH.
func Dial(ctx context.Context, t remote.Target, o remote.Options) (SSHHost, error) {
	host, err := remote.Dial(ctx, t, o)
	if err != nil {
		return nil, err
	}
	return host, nil
}

// dial connects to the host of an instance. The key that is asked for is that of the spec, or else the one that
// was pinned, or else, at first contact, whichever the host shows, where trust allows it.
func (c *Controller) dial(ctx context.Context, i *v1alpha1.WindowsInstance, key ssh.Signer, trust v1alpha1.Trust) (*connection, error) {
	host, err := c.connect(ctx, i, key, trust)
	c.metrics.connections.WithLabelValues(resultOf(err)).Inc()
	return host, err
}

// resultOf names how an attempt to connect ended: by a reason of condition Reachable.
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
	options := c.SSH
	options.Lookup = func(ctx context.Context, _, name string) ([]netip.Addr, error) {
		ips, err := c.Resolver.Lookup(ctx, name)
		if err != nil {
			return nil, err
		}
		return ips, c.mayReach(ctx, i, ips...)
	}
	if ip, err := netip.ParseAddr(i.Spec.Address); err == nil { // no name, so that nothing is looked up
		if err := c.mayReach(ctx, i, ip); err != nil {
			return nil, err
		}
	}
	host, err := c.Dialer(ctx, remote.Target{
		Address: i.Spec.Address,
		Port:    int(i.Spec.Port),
		User:    i.Spec.Username,
		Key:     key,
		HostKey: pinned, KnownOnly: trust == v1alpha1.TrustPinned,
	}, options)
	if err != nil {
		return nil, unreachable(err)
	}
	return &connection{host, c.metrics}, nil
}

// mayReach refuses addresses that no Windows host can have, before any of them is spoken to. What the cluster has for something else is
// asked at first contact only: later the host is known by its key, and what Nodes say of their addresses must not keep it away.
func (c *Controller) mayReach(ctx context.Context, i *v1alpha1.WindowsInstance, ips ...netip.Addr) error {
	var is addresses.Cluster
	if i.Status.HostKey == "" {
		var err error
		if is, err = c.Reserved.With(ctx, i.Status.Hostname); err != nil {
			return &join.Unready{Err: fmt.Errorf("%w: %w", join.ErrCluster, err)}
		}
	}
	for _, ip := range ips {
		if why := is.Refuse(ip); why != "" {
			return &join.Unreachable{Reason: api.ReasonAddressInvalid, Err: fmt.Errorf(
				"spec.address %s is not connected to: %s %s; delete this WindowsInstance, and announce the host at the address that it has in its own network",
				i.Spec.Address, ip, why)}
		}
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

// Close ends the connection and counts what it carried.
func (c *connection) Close() error {
	c.metrics.connection(c.Usage())
	return c.SSHHost.Close()
}

// unreachable gives failures to reach a host the reason that users see.
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
	reasons := map[remote.Kind]string{
		remote.Refused:           api.ReasonConnectionRefused,
		remote.Timeout:           api.ReasonConnectionTimeout,
		remote.Unreachable:       api.ReasonNoRoute,
		remote.Unresolvable:      api.ReasonAddressUnresolvable,
		remote.Authentication:    api.ReasonAuthenticationFailed,
		remote.Protocol:          api.ReasonNotSSH,
		remote.Lost:              api.ReasonConnectionLost,
		remote.HostKeyChanged:    api.ReasonHostKeyChanged,
		remote.HostKeyUnknown:    api.ReasonHostKeyUnknown,
		remote.HostKeyUnsuitable: api.ReasonHostKeyUnsuitable,
	}
	if e.HostKey != nil {
		err = fmt.Errorf("%w; to accept it, set spec.hostKey of the WindowsInstance to %q", err, remote.FormatHostKey(e.HostKey))
	}
	return &join.Unreachable{Reason: reasons[e.Kind], Err: err}
}
