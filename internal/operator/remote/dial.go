package remote

import (
	"bytes"
	"context"
	"crypto/fips140"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

// connect resolves the target and opens a TCP connection to the first of its IPv4 addresses that answers.
func connect(ctx context.Context, t Target, o Options) (net.Conn, error) {
	limited, cancel := context.WithTimeout(ctx, o.DialTimeout)
	defer cancel()
	addresses, err := resolve(limited, t.Address, o.Lookup)
	if err != nil {
		return nil, dialError(ctx, t, Unresolvable, err)
	}
	deadline, _ := limited.Deadline()
	var first error
	for i, a := range addresses {
		share := time.Until(deadline) / time.Duration(len(addresses)-i) // one silent address must not use up the time of the others
		c, err := dialLimited(limited, share, o.Dial, net.JoinHostPort(a.String(), strconv.Itoa(t.Port)))
		if err == nil {
			return c, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, dialError(ctx, t, tcpKind(first), first)
}

func dialLimited(ctx context.Context, limit time.Duration, dial func(context.Context, string, string) (net.Conn, error), address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return dial(ctx, "tcp4", address)
}

// resolve returns the IPv4 addresses of an address or a name. It fails if there is none.
func resolve(ctx context.Context, address string, lookup func(context.Context, string, string) ([]netip.Addr, error)) ([]netip.Addr, error) {
	found := []netip.Addr{}
	if literal, err := netip.ParseAddr(address); err == nil {
		found = append(found, literal)
	} else if found, err = lookup(ctx, "ip", address); err != nil {
		return nil, err
	}
	var v4 []netip.Addr
	for _, a := range found {
		if a = a.Unmap(); a.Is4() {
			v4 = append(v4, a)
		}
	}
	if len(v4) == 0 {
		return nil, fmt.Errorf("the host has only IPv6 addresses (%s); Windows nodes require IPv4", join(found))
	}
	return v4, nil
}

func tcpKind(err error) Kind {
	var n net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return Refused
	case errors.As(err, &n) && n.Timeout():
		return Timeout
	default:
		return Unreachable
	}
}

// login runs the SSH handshake over c, and owns c.
func login(ctx context.Context, c net.Conn, t Target, o Options) (*Host, error) {
	h := &Host{name: hostPort(t), options: o, conn: &countedConn{Conn: c}, dead: make(chan struct{})}
	attempt := &attempt{target: t}
	_ = c.SetDeadline(time.Now().Add(o.HandshakeTimeout))
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	connection, channels, requests, err := ssh.NewClientConn(h.conn, h.name, attempt.config())
	if !stop() && err == nil { // canceled at the last moment
		err = context.Cause(ctx)
	}
	if err != nil {
		c.Close()
		return nil, dialError(ctx, t, attempt.kind(err), err)
	}
	_ = c.SetDeadline(time.Time{})
	h.key = attempt.presented
	if peer, err := netip.ParseAddrPort(c.RemoteAddr().String()); err == nil {
		h.address = peer.Addr().Unmap()
	}
	h.client = ssh.NewClient(connection, channels, requests)
	go h.watch()
	go h.keepAlive()
	return h, nil
}

// dialError returns the error of a dial. A canceled dial proves nothing about the host and is not an *Error.
func dialError(ctx context.Context, t Target, k Kind, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("connecting to %s: %w", hostPort(t), context.Cause(ctx))
	}
	var reported *Error
	if errors.As(err, &reported) {
		return reported
	}
	return &Error{Kind: k, Host: hostPort(t), Err: bounded(err)}
}

type attempt struct {
	target         Target
	presented      ssh.PublicKey // nil until the host has proved that it owns the key
	authenticating bool          // authentication has started
}

func (a *attempt) config() *ssh.ClientConfig {
	return &ssh.ClientConfig{
		Config:            algorithms(),
		User:              a.target.User,
		Auth:              []ssh.AuthMethod{ssh.PublicKeys(withoutSHA1(a.target.Key))},
		AuthCallback:      a.beforeLogin,
		HostKeyCallback:   a.checkHostKey,
		HostKeyAlgorithms: hostKeyAlgorithms(a.target.HostKey),
	}
}

// algorithms returns those that the SSH library considers secure, without HMAC-SHA1. Compared with the library's defaults, this excludes
// diffie-hellman-group14-sha1, hmac-sha1 and hmac-sha1-96, and the key types ssh-dss and ssh-rsa, which sign with SHA-1. OpenSSH 7.7, the oldest
// version that Windows Server includes, supports better ones of each kind.
//
// In FIPS 140-3 mode, the library omits algorithms that are not approved. If Go enforces that mode (GODEBUG=fips140=only), the library still offers
// two algorithms that then fail: the key exchange with X25519, and GCM with its own nonces.
func algorithms() ssh.Config {
	secure := ssh.SupportedAlgorithms()
	isWeak := func(name string) bool {
		if name == ssh.HMACSHA1 {
			return true
		}
		return fips140.Enforced() && slices.Contains([]string{ssh.KeyExchangeMLKEM768X25519, ssh.CipherAES128GCM, ssh.CipherAES256GCM}, name)
	}
	return ssh.Config{
		KeyExchanges: slices.DeleteFunc(secure.KeyExchanges, isWeak),
		Ciphers:      slices.DeleteFunc(secure.Ciphers, isWeak),
		MACs:         slices.DeleteFunc(secure.MACs, isWeak),
	}
}

// hostKeyAlgorithms returns the algorithms in order of preference. A host with several keys presents the pinned one, because its type comes first.
// The other types let a host without the pinned key present another one, so that the error contains its fingerprint.
func hostKeyAlgorithms(pinned ssh.PublicKey) []string {
	all := []string{ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
		ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	if pinned == nil {
		return all
	}
	first := []string{pinned.Type()}
	if pinned.Type() == ssh.KeyAlgoRSA {
		first = []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	}
	others := slices.DeleteFunc(all, func(k string) bool { return slices.Contains(first, k) })
	return append(first, others...)
}

// withoutSHA1 prevents an RSA key from signing with SHA-1.
func withoutSHA1(key ssh.Signer) ssh.Signer {
	signer, ok := key.(ssh.AlgorithmSigner)
	if !ok || key.PublicKey().Type() != ssh.KeyAlgoRSA {
		return key
	}
	strong, err := ssh.NewSignerWithAlgorithms(signer, []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256})
	if err != nil { // the signer has already restricted its algorithms
		return key
	}
	return strong
}

func (a *attempt) checkHostKey(_ string, _ net.Addr, presented ssh.PublicKey) error {
	a.presented = presented
	pinned := a.target.HostKey
	if pinned == nil {
		return a.checkUnknownHost(presented)
	}
	if bytes.Equal(pinned.Marshal(), presented.Marshal()) {
		return nil
	}
	return &Error{Kind: HostKeyChanged, Host: hostPort(a.target), HostKey: presented,
		Err: fmt.Errorf("the host presents key %s, but %s is pinned", describe(presented), describe(pinned))}
}

// checkUnknownHost checks the key of a host without a pinned key: a key that would later be rejected as pinned key must not be trusted at first contact.
func (a *attempt) checkUnknownHost(presented ssh.PublicKey) error {
	if weakness := unsuitableHostKey(presented); weakness != "" {
		return &Error{Kind: HostKeyUnsuitable, Host: hostPort(a.target), Err: fmt.Errorf("the host key is %s; RSA keys require at least %d bits", weakness, minRSABits)}
	}
	if a.target.KnownOnly {
		return &Error{Kind: HostKeyUnknown, Host: hostPort(a.target), HostKey: presented, Err: fmt.Errorf("the host presents unknown key %s", describe(presented))}
	}
	return nil
}

// beforeLogin is called before each authentication attempt. Since there is only one key, a second call means that the host rejected it.
func (a *attempt) beforeLogin(c *ssh.ClientAuthContext) (ssh.AuthMethod, error) {
	const method = "publickey"
	offered := fmt.Sprintf("user %q with the key %s", a.target.User, describe(a.target.Key.PublicKey()))
	var err error
	switch {
	case slices.Contains(c.PartialSuccessMethods, method):
		err = bounded(fmt.Errorf("the host accepts %s but requires more (%s)", offered, strings.Join(c.AllowedMethods, ", ")))
	case slices.Contains(c.TriedMethods, method):
		err = fmt.Errorf("the host refuses %s", offered)
	case !slices.Contains(c.AllowedMethods, method):
		err = bounded(fmt.Errorf("the host accepts no keys, only %s; tried %s", strings.Join(c.AllowedMethods, ", "), offered))
	default:
		a.authenticating = true
		return nil, nil
	}
	return nil, &Error{Kind: Authentication, Host: hostPort(a.target), Err: err}
}

// kind classifies a failed handshake, unless one of the checks above has already returned an *Error.
func (a *attempt) kind(err error) Kind {
	var n net.Error
	switch {
	case errors.As(err, &n) && n.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return Timeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &n):
		return Lost
	case a.authenticating: // disconnected with a message, as OpenSSH does after too many failures
		return Authentication
	default:
		return Protocol
	}
}

func describe(k ssh.PublicKey) string { return k.Type() + " " + ssh.FingerprintSHA256(k) }

func join(list []netip.Addr) string {
	var s []string
	for _, a := range list {
		s = append(s, a.String())
	}
	return strings.Join(s, ", ")
}
