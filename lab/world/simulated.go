//go:build linux

package world

import (
	"bytes"
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/crypto/ssh"

	"github.com/windows-machine-config/wmco/internal/sim"
	"github.com/windows-machine-config/wmco/payload"
	"github.com/windows-machine-config/wmco/payload/build"
)

// startHosts starts the simulated hosts, and lists all.
func (w *World) startHosts(o Options) error {
	for _, h := range w.Lab.Hosts() {
		w.hosts = append(w.hosts, Host{Name: h.Name(), Address: h.Address(), Port: 22})
	}
	for _, name := range names(o.SimulatedHosts) {
		if _, _, err := w.AddSimulated(sim.Options{Windows: sim.WindowsOptions{Hostname: name}}); err != nil {
			return err
		}
	}
	return nil
}

// AddSimulated starts one more simulated host, which the world's key can log in to unless the options say who can.
func (w *World) AddSimulated(o sim.Options) (*sim.Host, Host, error) {
	n := len(w.simulated)
	o.Windows.Address = nodeAddress(n)
	o.Windows.Root = filepath.Join(w.folder.Path, "hosts", strconv.Itoa(n))
	o.User = User
	if o.AuthorizedKeys == nil {
		o.AuthorizedKeys = []ssh.PublicKey{w.authorized}
	}
	host, err := start(o)
	if err != nil {
		return nil, Host{}, err
	}
	w.simulated = append(w.simulated, host)
	address, err := netip.ParseAddrPort(host.Addr())
	if err != nil {
		return nil, Host{}, err
	}
	h := Host{Name: strings.ToLower(o.Windows.Hostname), Address: address.Addr().String(), Port: int32(address.Port())}
	w.hosts = append(w.hosts, h)
	return host, h, nil
}

// start starts a simulated host on a loopback address that no other host of this machine has. It ends with Close.
func start(o sim.Options) (host *sim.Host, err error) {
	const attempts = 20
	for range attempts {
		o.ListenAddr = fmt.Sprintf("127.%d.%d.%d:%d", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250), simulatedPort())
		if host, err = sim.Start(context.Background(), o); !errors.Is(err, syscall.EADDRINUSE) {
			return host, err
		}
	}
	return nil, err
}

// nodeAddress is what the host says its address is: a node cannot have a loopback address.
func nodeAddress(n int) string { return fmt.Sprintf("10.200.%d.%d", n/250, 1+n%250) }

// simulatedPort is that of SSH for root, who may take it, so that simulated hosts can be announced as real ones
// are; others get a free one.
func simulatedPort() int {
	if os.Geteuid() == 0 {
		return 22
	}
	return 0
}

// Simulated are the simulated hosts.
func (w *World) Simulated() []*sim.Host { return w.simulated }

// wicdBytes is the size of the WICD that simulated hosts get.
const wicdBytes = 64 << 10

// simulatedPayload is small: simulated hosts run no program of it, but receive and verify all. Random content cannot be
// compressed, so that the sizes are those on the wire.
func simulatedPayload(ctx context.Context, dir string, programBytes int) error {
	set := build.Set{Stub: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader([]byte("stub"))), nil }}
	for _, path := range []string{"kubelet.exe", "kube-log-runner.exe", "containerd/containerd.exe", "windows_exporter.exe", payload.WICD} {
		size := programBytes
		if path == payload.WICD {
			size = wicdBytes
		}
		content := make([]byte, size)
		_, _ = cryptorand.Read(content) // never fails
		set.Files = append(set.Files, build.Content{
			Path: path, Component: path, Version: "simulated", Group: payload.Base, Open: build.Bytes(content),
		})
	}
	_, err := build.Write(ctx, dir, set)
	return err
}
