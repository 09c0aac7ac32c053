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

// Files accesses the files of a host in one SFTP session. Names use forward slashes; relative ones start in the user's home folder, absolute ones are
// written as C:/k/x.
type Files struct {
	ctx     context.Context
	session *sftpSession
}

// Files calls use with the files of the host, until use returns or ctx ends.
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

// Server returns the version that the host's SSH server reports, such as SSH-2.0-OpenSSH_for_Windows_9.5, which is not verified, and its address.
func (h *Host) Server() (version string, at netip.Addr) {
	return string(h.client.ServerVersion()), h.address
}

// Write atomically creates a file with this content in an existing folder.
func (f *Files) Write(name string, b []byte) error {
	return f.do("writing", name, func() error { return f.session.put(name, &content{f.ctx, bytes.NewReader(b)}, int64(len(b))) })
}

// Exists reports whether a file or folder exists.
func (f *Files) Exists(name string) (found bool, err error) {
	err = f.do("looking for", name, func() error {
		_, err := stat(f.session.Client, name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		found = err == nil
		return err
	})
	return found, err
}

// Path returns the full Windows name of a file, such as C:\Users\x\file.
func (f *Files) Path(name string) (path string, err error) {
	err = f.do("finding", name, func() error {
		path, err = f.session.RealPath(name)
		return err
	})
	return strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", `\`), err
}

func (f *Files) do(action, name string, call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil { // see put
			err = fmt.Errorf("%s %s: the host sent invalid responses: %v", action, name, p)
		}
	}()
	if err := call(); err != nil {
		if f.session.answers.exhausted() {
			err = fmt.Errorf("the host sent more than %d MiB", maxAnswers>>20)
		}
		return fmt.Errorf("%s %s: %w", action, name, err)
	}
	return nil
}
