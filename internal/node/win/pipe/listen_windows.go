package pipe

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/windows"
)

// rights gives SYSTEM and Administrators full access, and no one else any, not even to create more instances. Administrators are the owner.
const rights = "O:BAD:P(A;;GA;;;SY)(A;;GA;;;BA)"

// bufferSize is a hint in bytes. A message of package policypipe fits.
const bufferSize = 4096

// listener always has one more instance of the pipe than connections, so that the name stays its own.
type listener struct {
	name     string
	security *windows.SecurityAttributes
	// closing is an event that ends Accept, connected one of its own.
	closing, connected windows.Handle
	close              func() error

	mu sync.Mutex
	// pending is the running call that waits for a client. Windows writes to it after the call of Go has returned, so it must not be on a stack, which
	// can move.
	pending windows.Overlapped
	// next is the instance for the next client; 0 after Close.
	next windows.Handle
}

// Listen implements hostapi.Pipes.
func Listen(name string) (net.Listener, error) {
	l := &listener{name: name}
	l.close = sync.OnceValue(l.end)
	descriptor, err := windows.SecurityDescriptorFromString(rights)
	if err != nil {
		return nil, fmt.Errorf("creating pipe %s: %w", name, err)
	}
	l.security = &windows.SecurityAttributes{SecurityDescriptor: descriptor}
	l.security.Length = uint32(unsafe.Sizeof(*l.security))
	if l.next, err = l.create(windows.FILE_FLAG_FIRST_PIPE_INSTANCE); err != nil {
		return nil, err
	}
	l.closing, err = windows.CreateEvent(nil, 1, 0, nil)
	if err == nil {
		l.connected, err = windows.CreateEvent(nil, 1, 0, nil)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("creating pipe %s: %w", name, err), closeAll(l.next, l.closing))
	}
	return l, nil
}

func (l *listener) create(flags uint32) (windows.Handle, error) {
	name, err := windows.UTF16PtrFromString(l.name)
	if err != nil {
		return 0, fmt.Errorf("creating pipe %s: %w", l.name, err)
	}
	h, err := windows.CreateNamedPipe(name, windows.PIPE_ACCESS_DUPLEX|windows.FILE_FLAG_OVERLAPPED|flags,
		windows.PIPE_TYPE_BYTE|windows.PIPE_REJECT_REMOTE_CLIENTS, windows.PIPE_UNLIMITED_INSTANCES, bufferSize, bufferSize, 0, l.security)
	if err != nil {
		return 0, fmt.Errorf("creating pipe %s: %w", l.name, err)
	}
	return h, nil
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.next != 0 {
		err := l.connect()
		if errors.Is(err, net.ErrClosed) {
			return nil, err
		}
		accepted := l.next
		var createErr error
		if l.next, createErr = l.create(0); createErr != nil {
			return nil, errors.Join(createErr, closeAll(accepted))
		}
		if err == nil {
			return Conn{os.NewFile(uintptr(accepted), l.name)}, nil
		}
		_ = closeAll(accepted) // that client has disconnected already
	}
	return nil, net.ErrClosed
}

// connect waits for a client of the next instance.
func (l *listener) connect() error {
	if err := windows.ResetEvent(l.connected); err != nil {
		return net.ErrClosed
	}
	l.pending = windows.Overlapped{HEvent: l.connected}
	err := windows.ConnectNamedPipe(l.next, &l.pending)
	if errors.Is(err, windows.ERROR_PIPE_CONNECTED) {
		return nil
	}
	if !errors.Is(err, windows.ERROR_IO_PENDING) {
		return err
	}
	which, err := windows.WaitForMultipleObjects([]windows.Handle{l.closing, l.connected}, false, windows.INFINITE)
	isClosing := err != nil || which == windows.WAIT_OBJECT_0
	if isClosing {
		_ = windows.CancelIoEx(l.next, &l.pending)
	}
	var transferred uint32
	if err = windows.GetOverlappedResult(l.next, &l.pending, &transferred, true); isClosing {
		return net.ErrClosed
	}
	return err
}

// Close implements net.Listener.
func (l *listener) Close() error { return l.close() }

func (l *listener) end() error {
	if err := windows.SetEvent(l.closing); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	next := l.next
	l.next = 0
	return closeAll(next, l.closing, l.connected)
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return Addr(l.name) }

func closeAll(handles ...windows.Handle) error {
	var errs []error
	for _, h := range handles {
		if h != 0 {
			errs = append(errs, windows.CloseHandle(h))
		}
	}
	return errors.Join(errs...)
}
