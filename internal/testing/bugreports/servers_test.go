package bugreports

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"golang.org/x/crypto/ssh"

	"github.com/windows-machine-config/wmco/internal/operator/remote"
)

// sshReports are reports about settings of SSH servers and of the shells behind them.
func sshReports() []report {
	const settings = "https://man.openbsd.org/sshd_config"
	const pages = "https://learn.microsoft.com/windows/win32/intl/code-page-identifiers"
	return []report{{
		link: settings + "#MaxSessions", input: "a server that allows one session at a time", want: "three commands, one after the other",
		outcome: func(t *testing.T) string {
			err := onHost(t, open(), oneAtATime(""), func(h *remote.Host) error {
				for range 3 {
					if err := h.Run(t.Context(), "facts", nil, nil); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err.Error()
			}
			return "three commands, one after the other"
		},
	}, {
		link: settings + "#AuthenticationMethods", input: "a server that wants a password after the key", want: "says what the server wants",
		outcome: func(t *testing.T) string {
			further := ssh.ServerAuthCallbacks{PasswordCallback: func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) { return nil, io.EOF }}
			config := &ssh.ServerConfig{PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
				return nil, &ssh.PartialSuccessError{Next: further}
			}}
			err := onHost(t, config, oneAtATime(""), func(*remote.Host) error { return nil })
			return saying(err, "says what the server wants", "password")
		},
	},
		{link: pages + "#932", input: "a Japanese cmd.exe that does not find a program", want: "UTF-8, with the name", outcome: shellSays("'wicd' \x82\xcd\x81\x41\x93\xe0\x95\x94")},
		{link: pages + "#850", input: "a German cmd.exe that does not find a program", want: "UTF-8, with the name", outcome: shellSays("'wicd' wurde nicht gefunden f\x81r")},
	}
}

// oneAtATime rejects a session while another is open. Commands fail if says is not empty.
func oneAtATime(says string) func(ssh.NewChannel) {
	var open atomic.Int32
	return func(offered ssh.NewChannel) {
		if open.Add(1) > 1 {
			open.Add(-1)
			_ = offered.Reject(ssh.ConnectionFailed, "open failed")
			return
		}
		channel, requests, err := offered.Accept()
		if err != nil {
			return
		}
		go func() {
			for r := range requests {
				_ = r.Reply(true, nil)
				if r.Type != "exec" {
					continue
				}
				_, _ = io.WriteString(channel.Stderr(), says)
				_, _ = channel.SendRequest("exit-status", false, []byte{0, 0, 0, byte(min(len(says), 1))})
				open.Add(-1)
				_ = channel.Close()
			}
		}()
	}
}

// shellSays checks how output that is not UTF-8 is reported.
func shellSays(text string) func(*testing.T) string {
	return func(t *testing.T) string {
		err := onHost(t, open(), oneAtATime(text), func(h *remote.Host) error { return h.Run(t.Context(), "wicd", nil, nil) })
		if exit := (*remote.ExitError)(nil); !errors.As(err, &exit) || !utf8.ValidString(err.Error()) || !strings.Contains(err.Error(), "'wicd'") {
			return fmt.Sprintf("%q", err)
		}
		return "UTF-8, with the name"
	}
}
