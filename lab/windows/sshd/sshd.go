// Package sshd is the SSH server of the lab's Windows hosts: internal/testing/sshserver with keys and quirks from files, and
// with commands that run in the default shell.
package sshd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/windows-machine-config/wmco/internal/testing/sshserver"
)

const (
	// readSize is large enough for many SSH packets, because reads are slow on Wine.
	readSize = 1 << 20
	// copySize is the size of one copy of a command's input.
	copySize = 1 << 17
)

// Options are the settings of a server. All but QuirksFile are required.
type Options struct {
	// HostKeyFile has the server's key. The first time, the server creates it.
	HostKeyFile string
	// User is the only user who can log in; the name is not case-sensitive, as on Windows.
	User string
	// AuthorizedKeysFile is read at each login.
	AuthorizedKeysFile string
	// Home is the folder in which commands and SFTP sessions start.
	Home string
	// QuirksFile has sshserver.Quirks as JSON, and is read for each connection. Without the file, there are none.
	QuirksFile string
	// CountersFile has the counters; see sshserver.ReadCounters.
	CountersFile string
	// Log gets a record for each connection and each failure.
	Log *slog.Logger
}

// New returns a server.
func New(o Options) (*sshserver.Server, error) {
	key, err := loadHostKey(o.HostKeyFile)
	if err != nil {
		return nil, err
	}
	return sshserver.New(sshserver.Options{
		HostKeys: []ssh.Signer{key}, Keys: o.keys, Home: o.Home, FirstHome: systemFolder, Quirks: o.quirks, Exec: sshserver.WithQuirks(o.run),
		CountersFile: o.CountersFile, ReadBuffer: readSize, Log: o.Log,
	})
}

// keys returns the keys that a user may log in with now.
func (o Options) keys(user string) []ssh.PublicKey {
	if !strings.EqualFold(user, o.User) {
		return nil
	}
	content, err := os.ReadFile(o.AuthorizedKeysFile)
	if err != nil {
		o.Log.Error("Reading authorized keys failed", "error", err)
	}
	return sshserver.ParseKeys(content)
}

// quirks returns the quirks of a new connection.
func (o Options) quirks() (q sshserver.Quirks) {
	raw, err := os.ReadFile(o.QuirksFile)
	if err == nil {
		err = json.Unmarshal(raw, &q)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		o.Log.Error("Reading quirks failed", "error", err)
	}
	q.Version = cmp.Or(q.Version, "SSH-2.0-OpenSSH_for_Windows_8.9")
	return q
}

// run implements sshserver.Handler.
func (o Options) run(ctx context.Context, c sshserver.Command, stdin io.Reader, stdout, stderr io.Writer) int {
	shell := systemShell(c.Line)
	shell.Dir, shell.Stdout, shell.Stderr = c.Dir, stdout, stderr
	code, err := execute(ctx, shell, stdin, c.Quirks.OverlappedPipes)
	if err != nil {
		o.Log.Info("Running a command failed", "command", c.Line, "error", err)
		fmt.Fprintf(stderr, "%v\r\n", err)
		return 1
	}
	return int(code)
}
