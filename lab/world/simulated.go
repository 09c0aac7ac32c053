//go:build linux

package world

import (
	"bytes"
	"context"
	cryptorand "crypto/rand"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/windows-machine-config/wmco/internal/sim"
	"github.com/windows-machine-config/wmco/payload"
	"github.com/windows-machine-config/wmco/payload/build"
)

// startHosts starts the simulated hosts, and lists all.
func (w *World) startHosts(o Options) error {
	for _, h := range w.Lab.Hosts() {
		w.hosts = append(w.hosts, Host{Name: h.Name(), Address: h.Address(), Port: sshPort})
	}
	for _, name := range names(o.SimulatedHosts) {
		if _, _, err := w.AddSimulated(sim.Options{Windows: sim.WindowsOptions{Hostname: name}}); err != nil {
			return err
		}
	}
	return nil
}

// AddSimulated starts one more simulated host, which the world's key can log in to unless the options say who can. It says of itself that it
// has the address at which SSH answers, port 22, as a host of one's own does.
func (w *World) AddSimulated(o sim.Options) (*sim.Host, Host, error) {
	at := Host{Name: strings.ToLower(o.Windows.Hostname), Address: w.UnusedAddress(), Port: sshPort}
	o.Windows.Root = filepath.Join(w.folder.Path, "hosts", strconv.Itoa(len(w.simulated)))
	o.ListenAddr = at.dialed()
	o.User = User
	if o.AuthorizedKeys == nil {
		o.AuthorizedKeys = []ssh.PublicKey{w.authorized}
	}
	host, err := sim.Start(context.Background(), o)
	if err != nil {
		return nil, Host{}, err
	}
	w.simulated, w.hosts = append(w.simulated, host), append(w.hosts, at)
	return host, at, nil
}

// UnusedAddress is an address that no host of this machine has, and at which one could be: no packet to it gets lost. Only a world without Wine
// hosts has any.
func (w *World) UnusedAddress() string { return w.addresses.Next().String() }

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
