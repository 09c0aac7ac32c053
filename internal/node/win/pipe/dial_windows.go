package pipe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
)

// tick is the pause between attempts to connect.
const tick = 20 * time.Millisecond

// Dial connects to a pipe. While all its instances are in use, it waits until ctx ends. The pipe's server cannot impersonate this process,
// which it could by default, and this process runs as SYSTEM (Microsoft's documentation of CreateFile, SECURITY_SQOS_PRESENT).
func Dial(ctx context.Context, name string) (net.Conn, error) {
	return dial(ctx, name, windows.ERROR_PIPE_BUSY)
}

// DialOwned connects to a pipe that belongs to SYSTEM or Administrators. It also waits while there is no such pipe. A different owner is an
// error: only a process with the rights of SYSTEM or Administrators can make them the owner.
func DialOwned(ctx context.Context, name string) (net.Conn, error) {
	c, err := dial(ctx, name, windows.ERROR_PIPE_BUSY, windows.ERROR_FILE_NOT_FOUND)
	if err != nil {
		return nil, err
	}
	if err := c.checkOwner(); err != nil {
		return nil, errors.Join(fmt.Errorf("checking the owner of pipe %s: %w", name, err), c.Close())
	}
	return c, nil
}

func dial(ctx context.Context, name string, awaited ...error) (Conn, error) {
	const anonymous = windows.SECURITY_SQOS_PRESENT | windows.SECURITY_ANONYMOUS
	for {
		f, err := os.OpenFile(name, os.O_RDWR|windows.FILE_FLAG_OVERLAPPED|anonymous, 0o600)
		if err == nil {
			return Conn{f}, nil
		}
		if !slices.ContainsFunc(awaited, func(e error) bool { return errors.Is(err, e) }) {
			return Conn{}, err
		}
		if pauseErr := backoff.Sleep(ctx, tick); pauseErr != nil {
			return Conn{}, fmt.Errorf("%w: %w", pauseErr, err)
		}
	}
}

// Conn is a connection by a named pipe.
type Conn struct{ *os.File }

func (c Conn) checkOwner() error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var security *windows.SECURITY_DESCRIPTOR
	controlErr := raw.Control(func(handle uintptr) {
		security, err = windows.GetSecurityInfo(windows.Handle(handle), windows.SE_KERNEL_OBJECT, windows.OWNER_SECURITY_INFORMATION)
	})
	if err := errors.Join(controlErr, err); err != nil {
		return err
	}
	owner, _, err := security.Owner()
	if err != nil {
		return err
	}
	if owner == nil || !owner.IsWellKnown(windows.WinLocalSystemSid) && !owner.IsWellKnown(windows.WinBuiltinAdministratorsSid) {
		return fmt.Errorf("it is %v, neither SYSTEM nor Administrators: another program has created it", owner)
	}
	return nil
}

// LocalAddr implements net.Conn.
func (c Conn) LocalAddr() net.Addr { return Addr(c.Name()) }

// RemoteAddr implements net.Conn.
func (c Conn) RemoteAddr() net.Addr { return Addr(c.Name()) }

// Addr is the name of a pipe.
type Addr string

// Network implements net.Addr.
func (Addr) Network() string { return "pipe" }

// String implements net.Addr.
func (a Addr) String() string { return string(a) }
