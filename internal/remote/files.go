package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Files are the files of a host, in one SFTP session. Names have forward slashes; relative ones begin in the user's home, absolute ones are
// written as C:/k/x.
type Files struct {
	ctx     context.Context
	session *sftpSession
}

// Files calls use with the files of the host, until that returns or ctx is done.
func (h *Host) Files(ctx context.Context, use func(*Files) error) error {
	return h.session(ctx, func(s *ssh.Session) error {
		session, err := startSFTP(s)
		if err != nil {
			return err
		}
		defer session.Close()
		return use(&Files{ctx, session})
	})
}

// Server is how the host's SSH server identifies itself, SSH-2.0-OpenSSH_for_Windows_9.5, which nothing proves, and where it was reached.
func (h *Host) Server() (version string, at netip.Addr) {
	return string(h.client.ServerVersion()), h.address
}

// Write makes a file with this content, whole or not at all, in a folder that exists.
func (f *Files) Write(name string, b []byte) error {
	return f.do("writing", name, func() error { return f.session.put(name, &content{f.ctx, bytes.NewReader(b)}, int64(len(b))) })
}

// Exists tells whether there is a file or folder.
func (f *Files) Exists(name string) (there bool, err error) {
	err = f.do("looking for", name, func() error {
		_, err := stat(f.session.Client, name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		there = err == nil
		return err
	})
	return there, err
}

// Path is the full name of a file as Windows has it, C:\Users\x\file.
func (f *Files) Path(name string) (path string, err error) {
	err = f.do("finding", name, func() error {
		path, err = f.session.RealPath(name)
		return err
	})
	return strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", `\`), err
}

func (f *Files) do(what, name string, call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil { // see put
			err = fmt.Errorf("%s %s: the host's answers make no sense: %v", what, name, p)
		}
	}()
	if err := call(); err != nil {
		if f.session.answers.exhausted() {
			err = fmt.Errorf("the host answered with more than %d MiB", maxAnswers>>20)
		}
		return fmt.Errorf("%s %s: %w", what, name, err)
	}
	return nil
}
