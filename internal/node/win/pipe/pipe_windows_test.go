package pipe

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/windows"
)

const testPipe = `\\.\pipe\wicd-pipe-test`

// mustCreate creates the pipe as another program does, with an owner and rights in SDDL.
func mustCreate(t *testing.T, sddl string) {
	t.Helper()
	name, err := windows.UTF16PtrFromString(testPipe)
	if err != nil {
		t.Fatal(err)
	}
	security, err := windows.SecurityDescriptorFromString(sddl)
	if err != nil {
		t.Fatal(err)
	}
	attributes := &windows.SecurityAttributes{Length: 24, SecurityDescriptor: security}
	const mode = windows.PIPE_ACCESS_DUPLEX | windows.FILE_FLAG_OVERLAPPED
	h, err := windows.CreateNamedPipe(name, mode, windows.PIPE_TYPE_BYTE, windows.PIPE_UNLIMITED_INSTANCES, 0, 0, 0, attributes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = windows.CloseHandle(h) })
}

func TestPipeOfAnotherProgramIsNotShared(t *testing.T) {
	if windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil {
		t.Skip("Wine 8 ignores FILE_FLAG_FIRST_PIPE_INSTANCE")
	}
	mustCreate(t, "D:(A;;GA;;;WD)")
	if l, err := Listen(testPipe); err == nil {
		t.Error("listening on a pipe that another program has created")
		_ = l.Close()
	}
}

func TestServerMustBePrivileged(t *testing.T) {
	mustCreate(t, "O:BUD:(A;;GA;;;WD)")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if c, err := DialOwned(ctx, testPipe); err == nil || !strings.Contains(err.Error(), "neither SYSTEM nor Administrators") {
		t.Errorf("got %v", err)
		if err == nil {
			_ = c.Close()
		}
	}
}

func TestOnlyPrivilegedClientsMayConnect(t *testing.T) {
	l, err := Listen(testPipe)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := Dial(t.Context(), testPipe)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := c.(Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(raw.Control(func(handle uintptr) {
		const parts = windows.OWNER_SECURITY_INFORMATION | windows.DACL_SECURITY_INFORMATION
		var got *windows.SECURITY_DESCRIPTOR
		if got, err = windows.GetSecurityInfo(windows.Handle(handle), windows.SE_KERNEL_OBJECT, parts); err != nil {
			return
		}
		want := strings.ReplaceAll(rights, "GA", "FA") // Windows makes it the rights of a file, Wine does not
		if got := strings.ReplaceAll(got.String(), "GA", "FA"); got != want {
			t.Errorf("the pipe has %s, want %s", got, want)
		}
	}), err)
	if err != nil {
		t.Fatal(err)
	}
}

func TestClientWaitsForServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := DialOwned(ctx, testPipe); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, windows.ERROR_FILE_NOT_FOUND) {
		t.Errorf("got %v", err)
	}
	if _, err := Dial(t.Context(), testPipe); !errors.Is(err, windows.ERROR_FILE_NOT_FOUND) {
		t.Errorf("got %v", err)
	}
	connected := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c, err := DialOwned(ctx, testPipe)
		if err == nil {
			err = c.Close()
		}
		connected <- err
	}()
	time.Sleep(2 * tick)
	l, err := Listen(testPipe)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := <-connected; err != nil {
		t.Error(err)
	}
}

// TestAcceptSurvivesMovedStack accepts and closes while the garbage collector moves stacks: Windows writes the result of a call that waits to the
// address that it was given, and knows by it what to cancel.
func TestAcceptSurvivesMovedStack(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			runtime.GC()
		}
	}()
	for i := range 300 {
		l, err := Listen(testPipe)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			useStack(64)
			for {
				c, err := l.Accept()
				if err != nil {
					done <- err
					return
				}
				_ = c.Close()
			}
		}()
		c, err := Dial(t.Context(), testPipe)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		time.Sleep(5 * time.Millisecond) // until Accept waits again
		go l.Close()
		select {
		case err := <-done:
			if !errors.Is(err, net.ErrClosed) {
				t.Fatal(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("Accept has not returned after Close in round %d", i)
		}
	}
}

// useStack makes the stack larger than a number of KiB.
//
//go:noinline
func useStack(kib int) byte {
	var page [1024]byte
	if kib == 0 {
		return page[0]
	}
	page[kib] = useStack(kib - 1)
	return page[kib/2]
}
