package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sshserver"
)

// Options are the options of a host.
type Options struct {
	// Windows is the computer. If Root is empty, a temporary folder is used, which Close removes. If Address is empty, that of ListenAddr is used.
	// Programs override the simulated WICD and kubelet.
	Windows WindowsOptions
	// ListenAddr is the address and port of the SSH server. Each of 127.1.0.1 to 127.1.255.254 is a separate loopback address, so
	// that addresses identify hosts. Port 0 means any free port.
	ListenAddr string
	// Listen, if set, opens the SSH server's listener at each start of the computer instead of listening at ListenAddr.
	Listen func() (net.Listener, error)
	// User can log in with the keys of C:\ProgramData\ssh\administrators_authorized_keys; Administrator if empty. Without that
	// file, the host gets one with AuthorizedKeys.
	User           string
	AuthorizedKeys []ssh.PublicKey
	// HostKey identifies the SSH server. Default: a new Ed25519 key.
	HostKey ssh.Signer
	// Attack is the behavior of a hostile host; empty for an honest one. Lies changes the facts that a hostile host reports, each
	// time.
	Attack Attack
	Lies   func(*wicdapi.HostFacts)
	// Kubelet sets how the simulated kubelet behaves.
	Kubelet KubeletOptions
}

// Host is a simulated Windows host: a computer with an SSH server. Transferred files can be executed if they are WICD or wicd-setup. WICD and the
// kubelet can also run as services.
type Host struct {
	windows *Windows
	server  *sshserver.Server
	addr    string
	listen  func() (net.Listener, error)
	cancel  context.CancelFunc
	done    chan struct{}
	remove  string
	hostile *hostile // nil for an honest one
}

// Start starts a host. It runs until ctx ends or Close is called.
func Start(ctx context.Context, o Options) (*Host, error) {
	h := &Host{done: make(chan struct{}), listen: o.Listen}
	if h.listen == nil {
		h.listen = func() (net.Listener, error) { return net.Listen("tcp", cmp.Or(h.addr, o.ListenAddr)) }
	}
	listener, err := h.listen()
	if err != nil {
		return nil, fmt.Errorf("starting a simulated host: %w", err)
	}
	h.addr = listener.Addr().String()
	if err := h.setUp(&o); err != nil {
		return nil, errors.Join(fmt.Errorf("starting a simulated host: %w", err), listener.Close())
	}
	ctx, h.cancel = context.WithCancel(ctx)
	h.windows = NewWindows(o.Windows)
	go h.serve(ctx, listener)
	return h, nil
}

// setUp completes the options, and creates the home folder and the SSH server.
func (h *Host) setUp(o *Options) error {
	if o.Windows.Root == "" {
		root, err := os.MkdirTemp("", "windows-")
		if err != nil {
			return err
		}
		o.Windows.Root, h.remove = root, root
	}
	if o.Windows.Address == "" {
		var err error
		if o.Windows.Address, _, err = net.SplitHostPort(h.addr); err != nil {
			return err
		}
	}
	o.User = cmp.Or(o.User, "Administrator")
	programs := map[string]Program{api.WICDService: WICD, api.WICDUpdateService: WICD, desired.KubeletService: o.Kubelet.Program()}
	for name, program := range o.Windows.Programs {
		programs[name] = program
	}
	o.Windows.Programs = programs
	if o.HostKey == nil {
		var err error
		if o.HostKey, _, err = sshserver.NewKey(); err != nil {
			return err
		}
	}
	o.Windows.drawQuirks()
	quirks := o.Windows.Quirks
	shell := &shell{host: h, home: `C:\Users\` + o.User, root: o.Windows.Root, quirks: quirks}
	for _, folder := range []string{shell.home, windowsFolder} {
		if err := os.MkdirAll(shell.local(folder), 0o700); err != nil {
			return err
		}
	}
	exec := sshserver.WithQuirks(shell.exec)
	if o.Attack != "" || o.Lies != nil {
		h.hostile = &hostile{honest: exec, attack: o.Attack, lies: o.Lies}
		exec = h.hostile.exec
	}
	keys := &keyring{user: o.User, disk: hostapi.Disk{Root: o.Windows.Root}}
	if err := keys.create(o.AuthorizedKeys); err != nil {
		return err
	}
	var err error
	h.server, err = sshserver.New(sshserver.Options{
		HostKeys: []ssh.Signer{o.HostKey}, Keys: keys.of,
		Home: shell.local(shell.home), FirstHome: shell.local(windowsFolder), Root: o.Windows.Root, Exec: exec, EndlessFolders: o.Attack == Folders,
		Quirks: func() sshserver.Quirks {
			shell := quirks.Shell
			shell.HeldFor = quirks.Files.Held
			return shell
		},
		Arrived: quirks.Files.arrived,
	})
	return err
}

// serve runs the SSH server while the computer has power.
func (h *Host) serve(ctx context.Context, listener net.Listener) {
	defer close(h.done)
	for {
		b, err := h.windows.awaitBoot(ctx)
		if err != nil {
			return
		}
		if listener == nil {
			if listener, err = h.listenAgain(ctx); err != nil {
				return
			}
		}
		serveCtx, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(b.ctx, cancel)
		_ = h.server.Serve(serveCtx, listener) // ends with the power
		stop()
		cancel()
		listener = nil
	}
}

// listenAgain listens at the same address as before the power cut. Old connections may block the address for a moment.
func (h *Host) listenAgain(ctx context.Context) (net.Listener, error) {
	for {
		l, err := h.listen()
		if err == nil {
			return l, nil
		}
		if err := backoff.Sleep(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// Addr is address and port of the SSH server.
func (h *Host) Addr() string { return h.addr }

// Windows is the computer.
func (h *Host) Windows() *Windows { return h.windows }

// SSH is the SSH server, with its counters and faults.
func (h *Host) SSH() *sshserver.Server { return h.server }

// Close stops the host and waits until all its goroutines have ended.
func (h *Host) Close() {
	h.cancel()
	h.windows.PowerOff()
	<-h.done
	if h.remove != "" {
		_ = os.RemoveAll(h.remove)
	}
}
