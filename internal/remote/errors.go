package remote

import (
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/windows-machine-config/wmco/internal/shorten"
)

// Kind is why a host could not be reached, or not any longer.
type Kind string

// The kinds of Error.
const (
	// Unresolvable: the address is no IPv4 address, and no name of one.
	Unresolvable Kind = "Unresolvable"
	// Refused: the host is there, nothing listens on the port.
	Refused Kind = "Refused"
	// Unreachable: the network says that there is no way to the host.
	Unreachable Kind = "Unreachable"
	// Timeout: no answer to TCP, or none that completed the handshake in time.
	Timeout Kind = "Timeout"
	// Protocol: what listens there is no SSH server, or shares no algorithm with us.
	Protocol Kind = "Protocol"
	// Authentication: the host refuses the user or the key.
	Authentication Kind = "Authentication"
	// HostKeyChanged: the host shows another key than the pinned one.
	HostKeyChanged Kind = "HostKeyChanged"
	// HostKeyUnknown: nobody has vouched for the key that the host shows, and it is not to be taken at its word.
	HostKeyUnknown Kind = "HostKeyUnknown"
	// HostKeyUnsuitable: the key that the host shows is too weak to tell it by.
	HostKeyUnsuitable Kind = "HostKeyUnsuitable"
	// Lost: the connection was there and has ended.
	Lost Kind = "Lost"
)

// advice is what the user can do.
func (k Kind) advice() string {
	switch k {
	case Unresolvable:
		return "use an IPv4 address, or a name that DNS resolves to one"
	case Refused:
		return "start the OpenSSH server on the host and let it listen on this port"
	case Unreachable:
		return "check that the host is on and that its network is routed from here"
	case Timeout:
		return "check that the host is on and not overloaded, and that firewalls let its SSH port through"
	case Protocol:
		return "let OpenSSH 7.7 or later listen on this port, with its default algorithms"
	case Authentication:
		return `check the user name, and that the public key is in C:\ProgramData\ssh\administrators_authorized_keys, ` +
			"which only SYSTEM and Administrators may be able to write"
	case HostKeyChanged:
		return "if the host was reinstalled, compare the fingerprint there " +
			`(ssh-keygen -lf C:\ProgramData\ssh\ssh_host_ed25519_key.pub) and replace the pinned key; ` +
			"if not, somebody may be in between"
	case HostKeyUnknown:
		return `compare the fingerprint with that on the host's console (ssh-keygen -lf C:\ProgramData\ssh\ssh_host_ed25519_key.pub), ` +
			"and pin the key if they are the same"
	case HostKeyUnsuitable:
		return `make an Ed25519 key on the host (ssh-keygen -A) and let sshd_config name it (HostKey)`
	case Lost:
		return "it may have rebooted, or the network failed; try again"
	}
	return ""
}

// Error is a failure to reach a host; match it with errors.As.
type Error struct {
	// Kind tells the failures apart.
	Kind Kind
	// Host is the address and port, as in 10.0.0.7:22.
	Host string
	// HostKey is the key the host showed, for HostKeyChanged and HostKeyUnknown only.
	HostKey ssh.PublicKey
	// Err is what happened.
	Err error
}

// Error says what happened and what to do.
func (e *Error) Error() string {
	return fmt.Sprintf("reaching %s: %v; %s", e.Host, e.Err, e.Kind.advice())
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// ExitError is a command that ran and did not end with status 0.
type ExitError struct {
	// Status is the exit status, an unsigned 32-bit number on Windows; -1 when the host gave none.
	Status int
	// Stderr is the end of what the command wrote to its standard error, at most 4 KiB.
	Stderr string
}

// ExitStatus returns Status, for who knows no more of a failure than that it has one.
func (e *ExitError) ExitStatus() int { return e.Status }

// Error names the status, in hexadecimal too when it is a Windows status code such as 0xC0000135.
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

// told is an error with words of a host, which may be of any length and hold what terminals interpret.
type told struct {
	text string
	err  error
}

// bounded makes an error that is safe to log of one that may have words of a host.
func bounded(err error) error {
	if err == nil {
		return nil
	}
	if text := shorten.Printable(err.Error(), shorten.Note); text != err.Error() {
		return &told{text, err}
	}
	return err
}

// Error is the text, cut.
func (t *told) Error() string { return t.text }

// Unwrap returns the error itself.
func (t *told) Unwrap() error { return t.err }
