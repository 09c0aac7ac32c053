package remote

import (
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// Kind is the reason why a host cannot be reached or the connection was lost: a reason of condition Reachable.
type Kind string

// The kinds of Error.
const (
	// Unresolvable: the address is neither an IPv4 address nor a name that resolves to one.
	Unresolvable Kind = api.ReasonAddressUnresolvable
	// Refused: the host is up, but nothing listens on the port.
	Refused Kind = api.ReasonConnectionRefused
	// Unreachable: there is no route to the host.
	Unreachable Kind = api.ReasonNoRoute
	// Timeout: no answer to TCP, or the handshake was not completed in time.
	Timeout Kind = api.ReasonConnectionTimeout
	// Protocol: the port is not served by an SSH server, or the server and the operator have no algorithm in common.
	Protocol Kind = api.ReasonNotSSH
	// Authentication: the host rejects the user or the key.
	Authentication Kind = api.ReasonAuthenticationFailed
	// HostKeyChanged: the host presents another key than the pinned one.
	HostKeyChanged Kind = api.ReasonHostKeyChanged
	// HostKeyUnknown: the host key is unknown, and trust on first use is disabled.
	HostKeyUnknown Kind = api.ReasonHostKeyUnknown
	// HostKeyUnsuitable: the host key is too weak to identify the host.
	HostKeyUnsuitable Kind = api.ReasonHostKeyUnsuitable
	// Lost: the established connection ended.
	Lost Kind = api.ReasonConnectionLost
)

func (k Kind) advice() string {
	switch k {
	case Unresolvable:
		return "use an IPv4 address, or a name that DNS resolves to one"
	case Refused:
		return "start the OpenSSH server on the host and configure it to listen on this port"
	case Unreachable:
		return "check that the host is on and that its network is routed from here"
	case Timeout:
		return "check that the host is on and not overloaded, and that firewalls let its SSH port through"
	case Protocol:
		return "run OpenSSH 7.7 or later on this port, with its default algorithms"
	case Authentication:
		return `check the user name, and that the public key is in C:\ProgramData\ssh\administrators_authorized_keys, ` +
			"to which only SYSTEM and Administrators may have write access"
	case HostKeyChanged:
		return "if the host was reinstalled, compare the fingerprint there " +
			`(ssh-keygen -lf C:\ProgramData\ssh\ssh_host_ed25519_key.pub) and replace the pinned key; ` +
			"if not, another machine may be impersonating it"
	case HostKeyUnknown:
		return `compare the fingerprint with that on the host's console (ssh-keygen -lf C:\ProgramData\ssh\ssh_host_ed25519_key.pub), ` +
			"and pin the key if they match"
	case HostKeyUnsuitable:
		return `create an Ed25519 host key (ssh-keygen -A) and name it in sshd_config (HostKey)`
	case Lost:
		return "it may have rebooted, or the network failed; try again"
	}
	return ""
}

// Error is a failure to reach a host; match it with errors.As.
type Error struct {
	// Kind classifies the failure.
	Kind Kind
	// Host is the address and port, as in 10.0.0.7:22.
	Host string
	// HostKey is the key that the host presented, for HostKeyChanged and HostKeyUnknown only.
	HostKey ssh.PublicKey
	// Err is the cause.
	Err error
}

// Error describes the failure and what to do about it.
func (e *Error) Error() string {
	return fmt.Sprintf("reaching %s: %v; %s", e.Host, e.Err, e.Kind.advice())
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// ExitError is returned for a command that did not exit with status 0.
type ExitError struct {
	// Status is the exit status, an unsigned 32-bit number on Windows, or -1 if the host sent none.
	Status int
	// Stderr is the end of the command's standard error, at most 4 KiB.
	Stderr string
}

// ExitStatus returns Status. Package join uses it without importing this package.
func (e *ExitError) ExitStatus() int { return e.Status }

// Error includes the status, also in hexadecimal if it is a Windows status code such as 0xC0000135.
func (e *ExitError) Error() string {
	var s strings.Builder
	switch {
	case e.Status < 0:
		s.WriteString("ended without an exit status")
	case e.Status > 0xFFFF:
		fmt.Fprintf(&s, "exit status %d (0x%X)", e.Status, e.Status)
	default:
		fmt.Fprintf(&s, "exit status %d", e.Status)
	}
	if e.Stderr != "" {
		s.WriteString(": " + e.Stderr)
	}
	return s.String()
}

// hostError is an error with text from a host, shortened and without characters that terminals interpret.
type hostError struct {
	text string
	err  error
}

// bounded makes an error safe to log that may contain text from a host.
func bounded(err error) error {
	if err == nil {
		return nil
	}
	if text := truncate.Printable(err.Error(), truncate.Note); text != err.Error() {
		return &hostError{text, err}
	}
	return err
}

// Error returns the shortened text.
func (t *hostError) Error() string { return t.text }

// Unwrap returns the original error.
func (t *hostError) Unwrap() error { return t.err }
