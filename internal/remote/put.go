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

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

// SFTP extensions of OpenSSH, see PROTOCOL in its sources.
const (
	posixRename = "posix-rename@openssh.com"
	fsync       = "fsync@openssh.com"
)

// Put copies size bytes from r into the file name on the host, with one SFTP session. The name has forward slashes; a
// relative one begins in the user's home, an absolute one is written as C:/k/x. The folder must exist. Nothing is done, and r
// not read, when a file of that name and size is there already, so a name must stand for one content.
//
// The content goes into <name>.<random>.part beside the file, which gets its name only when it is complete on the host's
// disk: whatever happens, name is never half a file. Parts that an earlier Put of the same name left are removed.
//
// When ctx ends, the transfer stops and the cause of ctx is returned; the part stays for the next Put to remove.
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
		err = fmt.Errorf("the host answered with more than %d MiB", maxAnswers>>20)
	}
	return err
}

func (c *sftpSession) put(name string, r io.Reader, size int64) (err error) {
	// The library takes answers for good that make no sense, and panics over them in more than one place (Remove, for one, looks at
	// attributes that are not there): one host must not end the operator for all.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the host's answers make no sense: %v", p)
		}
	}()
	switch there, err := stat(c.Client, name); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("looking for it: %w", err)
	case there.Mode().IsRegular() && there.Size() == size:
		return nil
	}
	c.removeParts(name)
	part := name + "." + rand.Text() + partSuffix
	err = write(c.Client, part, r, size)
	if err == nil {
		err = rename(c.Client, part, name)
	}
	if err != nil {
		_ = c.Remove(part) // else the next Put does it
	}
	return err
}

// sftpSession is an SFTP session with a host that cannot fill our memory.
type sftpSession struct {
	*sftp.Client
	answers *answers
}

// startSFTP makes a fresh session an SFTP session. The library's own constructor would leak the channel on failure.
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
		return nil, fmt.Errorf("starting SFTP, which the host's sshd_config has to name as a subsystem: %w", err)
	}
	b := bufio.NewReader(out)
	a := &answers{from: b, waiting: b}
	c, err := sftp.NewClientPipe(a, in, sftp.UseConcurrentWrites(true))
	if err != nil {
		return nil, a.explain(err)
	}
	return &sftpSession{c, a}, nil
}

// maxHead is how much of what a host writes first is told, in bytes.
const maxHead = 80

// explain says what speaks in the place of SFTP. sshd of Windows starts SFTP by the shell, and what its profile writes comes first.
func (a *answers) explain(err error) error {
	const versionPacket = 2 // draft-ietf-secsh-filexfer-02, section 4

	rest, _ := a.waiting.Peek(min(a.waiting.Buffered(), maxHead-len(a.head))) // which is there
	head := slices.Concat(a.head, rest)
	if len(head) == 0 || len(head) > 4 && head[0] == 0 && head[4] == versionPacket {
		return fmt.Errorf("starting SFTP: %w", err)
	}
	return fmt.Errorf(`starting SFTP: the host writes %s before SFTP begins (%w); let no profile of the shell write anything `+
		`(of PowerShell, $PSHOME\profile.ps1 and those in the user's Documents), or remove the value DefaultShell of registry key HKLM\SOFTWARE\OpenSSH`,
		strconv.QuoteToASCII(string(head)), err)
}

// What a host may answer in one session, in bytes. It acknowledges each 32 KiB with some 30, and lists a file with some 150.
const (
	maxAnswers = 8 << 20
	maxListing = 64 << 10
)

// answers are what the host writes. A listing that is longer than it may be is ended, a session with more answers, too.
type answers struct {
	from    io.Reader
	waiting *bufio.Reader // from, where there is more than was read
	head    []byte        // the first of them, for whoever starts the session
	read    atomic.Int64
	listing atomic.Pointer[listing]
}

// listing is a listing that is under way: end is called when more bytes than upTo were read in all.
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

// list lists a folder, or the beginning of one that is too long.
func (c *sftpSession) list(folder string) []fs.FileInfo {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c.answers.listing.Store(&listing{c.answers.read.Load() + maxListing, cancel})
	defer c.answers.listing.Store(nil)
	entries, _ := c.ReadDirContext(ctx, folder) // where it fails, creating the part will say why
	return entries
}

// write fills a new file with exactly size bytes and makes sure that they are on the host's disk.
func write(c *sftp.Client, part string, r io.Reader, size int64) error {
	f, err := c.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err == nil && f == nil { // the library takes success without a handle for a file that is not there
		err = errors.New("the host answered without a handle")
	}
	if err != nil {
		return fmt.Errorf("creating %s: %w", part, err)
	}
	// 64 writes of 32 KiB are under way at any time, as much as the SSH window holds. OpenSSH for Windows takes no larger writes.
	n, err := f.ReadFromWithConcurrency(io.LimitReader(r, size+1), 0)
	if err == nil && n != size {
		err = fmt.Errorf("the content does not have the %d bytes announced", size)
	}
	if _, can := c.HasExtension(fsync); can && err == nil {
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
		return fmt.Errorf("checking %s: it has %d bytes of %d on the host", part, info.Size(), size)
	}
	return nil
}

// stat asks for the attributes of a file. Where a host answers with success and nothing else, the library gives something whose methods
// panic.
func stat(c *sftp.Client, name string) (fs.FileInfo, error) {
	info, err := c.Stat(name)
	if err != nil {
		return nil, err
	}
	if attributes, _ := info.Sys().(*sftp.FileStat); attributes == nil {
		return nil, errors.New("the host answered without attributes")
	}
	return info, nil
}

// rename gives a complete part its name.
func rename(c *sftp.Client, part, name string) error {
	var err error
	if _, can := c.HasExtension(posixRename); can {
		err = c.PosixRename(part, name)
	} else {
		_ = c.Remove(name) // the plain rename of SFTP refuses to replace a file
		err = c.Rename(part, name)
	}
	if err != nil {
		return fmt.Errorf("renaming %s: %w", part, err)
	}
	return nil
}

const partSuffix = ".part"

// removeParts removes what interrupted transfers of a name have left. A part that another transfer still writes stays: Windows
// does not remove an open file.
func (c *sftpSession) removeParts(name string) {
	folder := path.Dir(name)
	for _, e := range c.list(folder) {
		random, ours := strings.CutPrefix(e.Name(), path.Base(name)+".")
		random, part := strings.CutSuffix(random, partSuffix)
		if ours && part && len(random) == len(rand.Text()) {
			_ = c.Remove(path.Join(folder, e.Name()))
		}
	}
}

// content is the caller's reader, which ends with its context.
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
