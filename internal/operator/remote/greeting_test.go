package remote

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// TestOutputBeforeSFTPIsReported: if DefaultShell is set, sshd of Windows starts SFTP through this shell, and the output of its profile comes first.
func TestOutputBeforeSFTPIsReported(t *testing.T) {
	for name, test := range map[string]struct{ writes, hostError string }{
		"a greeting":         {"Welcome to SRV01\r\n", `"Welcome to SRV01\r\n"`}, // https://github.com/PowerShell/Win32-OpenSSH/issues/1220
		"a long banner":      {strings.Repeat("This computer belongs to Example Corp. ", 100), `"This computer belongs to Example Corp. `},
		"control characters": {"\x1b[31m\u202e\xff\r\n", `"\x1b[31m\u202e\xff\r\n"`},
		"a line break":       {"\r\n\r\n", `"\r\n\r\n"`}, // https://github.com/PowerShell/Win32-OpenSSH/issues/800
	} {
		t.Run(name, func(t *testing.T) {
			target := rawHost(&ssh.ServerConfig{NoClientAuth: true}, func(offered ssh.NewChannel) {
				channel, requests, err := offered.Accept()
				if err != nil {
					return
				}
				for r := range requests {
					_ = r.Reply(true, nil)
					if r.Type == "subsystem" {
						_, _ = io.WriteString(channel, test.writes)
						go func() { _, _ = io.Copy(io.Discard, channel) }()
					}
				}
			})(t)
			h, err := Dial(t.Context(), target, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close()
			err = h.Put(t.Context(), "setup.exe", bytes.NewReader([]byte("12345")), 5)
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range []string{test.hostError, "before SFTP begins", "profile", "DefaultShell"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%v\ndoes not contain %s", err, part)
				}
			}
			if len(err.Error()) > 800 || strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("%d bytes, or not fit to print: %q", len(err.Error()), err)
			}
		})
	}
}
