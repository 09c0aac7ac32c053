package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/Microsoft/hcsshim/hcn"
	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// CreateNamespace creates an empty network namespace, as containerd does for each pod, and returns its GUID. Containers.RemoveNamespace
// removes it.
func (h *HNS) CreateNamespace(ctx context.Context) (id string, err error) {
	err = h.change(ctx, "creating a network namespace", func() error {
		made, err := hcn.NewNamespace("").Create() // as in containerd's pkg/netns
		if err == nil {
			id = strings.ToLower(made.Id)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	return id, nil
}

// Attach adds an endpoint to a namespace, as a network plugin does, and returns the number of the namespace's network compartment.
func (h *HNS) Attach(ctx context.Context, endpoint, namespace string) (compartment uint32, err error) {
	err = h.change(ctx, "attaching endpoint "+endpoint+" to namespace "+namespace, func() error {
		e, _, _, err := openEndpoint(endpoint)
		if err != nil {
			return err
		}
		if err := e.NamespaceAttach(strings.ToUpper(namespace)); err != nil {
			return err
		}
		space, err := hcn.GetNamespaceByID(strings.ToUpper(namespace))
		if err == nil {
			compartment = space.NamespaceId
		}
		return err
	})
	if err == nil && compartment == 0 {
		err = fmt.Errorf("namespace %s has no compartment", namespace)
	}
	if err != nil {
		return 0, err
	}
	return compartment, nil
}

// SetUncheckedACLs is like SetACLs, but accepts rules that SetACLs rejects because their effect in Windows is unknown. It is for tests of Windows.
func (h *HNS) SetUncheckedACLs(ctx context.Context, endpoint string, acls []hns.ACL) error {
	return h.change(ctx, "setting the ACLs of endpoint "+endpoint, func() error { return setACLs(endpoint, acls) })
}

// Dial opens a TCP connection from a compartment; from that of the machine itself if it is 0.
func (h *HNS) Dial(ctx context.Context, compartment uint32, to netip.AddrPort) (conn net.Conn, err error) {
	err = inCompartment(compartment, func() (err error) {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp4", to.String())
		return err
	})
	return conn, err
}

// Listen accepts TCP connections in a compartment; in that of the machine itself if it is 0.
func (h *HNS) Listen(ctx context.Context, compartment uint32, at netip.AddrPort) (net.Listener, error) {
	var inner net.Listener
	err := inCompartment(compartment, func() (err error) {
		inner, err = (&net.ListenConfig{}).Listen(ctx, "tcp4", at.String())
		return err
	})
	if err != nil {
		return nil, err
	}
	l := &compartmentListener{Listener: inner, accepted: make(chan net.Conn), ended: make(chan struct{})}
	go func() { l.failure = inCompartment(compartment, l.run); close(l.ended) }()
	return l, nil
}

// compartmentListener accepts on a thread of its compartment: Windows creates the socket of a connection before it accepts.
type compartmentListener struct {
	net.Listener
	accepted chan net.Conn
	ended    chan struct{}
	failure  error // once ended is closed
	closing  sync.Once
}

// run accepts until the listener is closed. A connection that Accept does not return within a second is closed.
func (l *compartmentListener) run() error {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return err
		}
		select {
		case l.accepted <- conn:
		case <-time.After(time.Second):
			_ = conn.Close()
		}
	}
}

// Accept implements net.Listener.
func (l *compartmentListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.accepted:
		return conn, nil
	case <-l.ended:
		return nil, errors.Join(l.failure, net.ErrClosed)
	}
}

// Close implements net.Listener. It returns when no more connections are accepted.
func (l *compartmentListener) Close() (err error) {
	l.closing.Do(func() { err = l.Listener.Close(); <-l.ended })
	return err
}

// inCompartment calls a function on a thread that belongs to a network compartment, as the sockets do that it creates. The thread ends with
// the call, so that no other goroutine can get it.
func inCompartment(compartment uint32, call func() error) error {
	if compartment == 0 {
		return call()
	}
	set := windows.NewLazySystemDLL("iphlpapi.dll").NewProc("SetCurrentThreadCompartmentId")
	if err := set.Find(); err != nil {
		return fmt.Errorf("entering network compartment %d: %w", compartment, err)
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked
		if code, _, _ := set.Call(uintptr(compartment)); uint32(code) != 0 {
			done <- fmt.Errorf("entering network compartment %d: status 0x%x", compartment, uint32(code))
			return
		}
		done <- call()
	}()
	return <-done
}
