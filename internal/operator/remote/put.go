package remote

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

// SFTP extensions of OpenSSH, see PROTOCOL in its sources.
const (
	posixRename = "posix-rename@openssh.com"
	fsync       = "fsync@openssh.com"
)

// Put copies size bytes from r into the file name on the host, in one SFTP session. The name uses forward slashes; a relative one starts in the
// user's home folder, an absolute one is written as C:/k/x. The folder must exist. If a file of that name and size already exists, Put does nothing
// and does not read r, so a name must always have the same content.
//
// The content is written to <name>.<random>.part next to the file, and renamed when it is complete on the host's disk: name is never a partial file.
// Parts left by earlier calls for the same name are removed.
//
// When ctx ends, Put stops the transfer and returns the cause of ctx. The part stays until the next Put removes it.
func (h *Host) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	err := h.session(ctx, func(s *ssh.Session) error { return put(s, name, &content{ctx, r}, size) })
	if err != nil {
		return fmt.Errorf("copying %s: %w", name, err)
	}
	return nil
}

func put(s *ssh.Session, name string, r io.Reader, size int64) error {
	c, err := startSFTP(s)
	if err != nil {
		return err
	}
	defer c.Close()
	err = c.put(name, r, size)
	if c.answers.exhausted() {
		err = fmt.Errorf("the host sent more than %d MiB", maxAnswers>>20)
	}
	return err
}

func (c *sftpSession) put(name string, r io.Reader, size int64) (err error) {
	// The library accepts invalid answers and panics on them in several places (Remove, for example, dereferences missing attributes). One host must
	// not end the operator for all hosts.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the host sent invalid responses: %v", p)
		}
	}()
	switch existing, err := stat(c.Client, name); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("checking for an existing file: %w", err)
	case existing.Mode().IsRegular() && existing.Size() == size:
		return nil
	}
	c.removeParts(name)
	part := name + "." + rand.Text() + partSuffix
	err = write(c.Client, part, r, size)
	if err == nil {
		err = rename(c.Client, part, name)
	}
	if err != nil {
		_ = c.Remove(part) // otherwise the next Put removes it
	}
	return err
}

// sftpSession is an SFTP session with a limit on what the host can send, so that it cannot exhaust the operator's memory.
type sftpSession struct {
	*sftp.Client
	answers *answers
}

// startSFTP starts SFTP in a new session. The library's own constructor would leak the channel on failure.
func startSFTP(s *ssh.Session) (*sftpSession, error) {
	in, err := s.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := s.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.RequestSubsystem("sftp"); err != nil {
		return nil, fmt.Errorf("starting SFTP, which sshd_config on the host must define as a subsystem: %w", err)
	}
	b := bufio.NewReader(out)
	a := &answers{from: b, waiting: b}
	c, err := sftp.NewClientPipe(a, in, sftp.UseConcurrentWrites(true))
	if err != nil {
		return nil, a.explain(err)
	}
	return &sftpSession{c, a}, nil
}

// maxHead is how much of a host's first output is included in errors, in bytes.
const maxHead = 80

// explain describes unexpected output before SFTP. sshd of Windows starts SFTP through the shell, and the output of its profile comes first.
func (a *answers) explain(err error) error {
	const versionPacket = 2 // draft-ietf-secsh-filexfer-02, section 4

	rest, _ := a.waiting.Peek(min(a.waiting.Buffered(), maxHead-len(a.head))) // already read
	head := slices.Concat(a.head, rest)
	if len(head) == 0 || len(head) > 4 && head[0] == 0 && head[4] == versionPacket {
		return fmt.Errorf("starting SFTP: %w", err)
	}
	return fmt.Errorf(`starting SFTP: the host writes %s before SFTP begins (%w); remove the output from the shell's profiles `+
		`(for PowerShell, $PSHOME\profile.ps1 and those in the user's Documents), or remove the value DefaultShell of registry key HKLM\SOFTWARE\OpenSSH`,
		strconv.QuoteToASCII(string(head)), err)
}

// Limits of a host's answers in one session, in bytes. It acknowledges each 32 KiB with some 30 bytes, and lists a file with some 150.
const (
	maxAnswers = 8 << 20
	maxListing = 64 << 10
)

// answers reads what the host sends. It ends a listing that exceeds its limit, and a session with too many answers.
type answers struct {
	from    io.Reader
	waiting *bufio.Reader // from, to access what is buffered beyond that
	head    []byte        // the first answers, for startSFTP's errors
	read    atomic.Int64
	listing atomic.Pointer[listing]
}

// listing is a listing in progress: end is called when more than upTo bytes were read in total.
type listing struct {
	upTo int64
	end  context.CancelFunc
}

func (a *answers) exhausted() bool { return a.read.Load() > maxAnswers }

func (a *answers) Read(p []byte) (int, error) {
	n, err := a.from.Read(p)
	if missing := maxHead - len(a.head); missing > 0 {
		a.head = append(a.head, p[:min(n, missing)]...)
	}
	read := a.read.Add(int64(n))
	if l := a.listing.Load(); l != nil && read > l.upTo {
		l.end()
	}
	if read > maxAnswers {
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// list returns the content of a folder, truncated at maxListing.
func (c *sftpSession) list(folder string) []fs.FileInfo {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c.answers.listing.Store(&listing{c.answers.read.Load() + maxListing, cancel})
	defer c.answers.listing.Store(nil)
	entries, _ := c.ReadDirContext(ctx, folder) // if this fails, creating the part returns a better error
	return entries
}

// write writes exactly size bytes to a new file and flushes them to the host's disk.
func write(c *sftp.Client, part string, r io.Reader, size int64) error {
	f, err := c.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err == nil && f == nil { // for an absent file, the library treats success without a handle as success
		err = errors.New("the host responded without a handle")
	}
	if err != nil {
		return fmt.Errorf("creating %s: %w", part, err)
	}
	// 64 writes of 32 KiB are in progress at any time, as much as the SSH window allows. OpenSSH for Windows accepts no larger writes.
	n, err := f.ReadFromWithConcurrency(io.LimitReader(r, size+1), 0)
	if err == nil && n != size {
		err = fmt.Errorf("the content does not have the %d bytes announced", size)
	}
	if _, supported := c.HasExtension(fsync); supported && err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", part, err)
	}
	switch info, err := stat(c, part); {
	case err != nil:
		return fmt.Errorf("checking %s: %w", part, err)
	case info.Size() != size:
		return fmt.Errorf("checking %s: it has %d of %d bytes on the host", part, info.Size(), size)
	}
	return nil
}

// stat returns the attributes of a file. If a host answers with success and nothing else, the library returns a value whose methods panic.
func stat(c *sftp.Client, name string) (fs.FileInfo, error) {
	info, err := c.Stat(name)
	if err != nil {
		return nil, err
	}
	if attributes, _ := info.Sys().(*sftp.FileStat); attributes == nil {
		return nil, errors.New("the host responded without attributes")
	}
	return info, nil
}

// A scanner on the host briefly opens what was written, and Windows refuses to rename it meanwhile. WICD waits as long for its own files.
const (
	renameAttempts = 50
	renamePause    = 100 * time.Millisecond
)

// rename renames a complete part to its final name. It repeats that for five seconds if the host refuses.
func rename(c *sftp.Client, part, name string) error {
	for attempt := 1; ; attempt++ {
		err := renameOnce(c, part, name)
		if err == nil {
			return nil
		}
		if attempt == renameAttempts || !isRefused(err) {
			return fmt.Errorf("renaming %s: %w", part, err)
		}
		time.Sleep(renamePause)
	}
}

func renameOnce(c *sftp.Client, part, name string) error {
	if _, supported := c.HasExtension(posixRename); supported {
		return c.PosixRename(part, name)
	}
	_ = c.Remove(name) // SFTP's standard rename refuses to replace a file
	return c.Rename(part, name)
}

// isRefused reports whether the host responded that it cannot do something now. Which of the two codes it uses depends on the error of Windows.
func isRefused(err error) bool {
	var status *sftp.StatusError
	return errors.Is(err, fs.ErrPermission) || errors.As(err, &status) && status.FxCode() == sftp.ErrSSHFxFailure
}

const partSuffix = ".part"

// removeParts removes the parts left by interrupted transfers of a name. A part that another transfer is writing stays: Windows does not remove an
// open file.
func (c *sftpSession) removeParts(name string) {
	folder := path.Dir(name)
	for _, e := range c.list(folder) {
		random, sameName := strings.CutPrefix(e.Name(), path.Base(name)+".")
		random, part := strings.CutSuffix(random, partSuffix)
		if sameName && part && len(random) == len(rand.Text()) {
			_ = c.Remove(path.Join(folder, e.Name()))
		}
	}
}

// content is the caller's reader until its context ends.
type content struct {
	ctx  context.Context
	from io.Reader
}

func (c *content) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.from.Read(p)
}
