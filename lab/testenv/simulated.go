//go:build linux

package testenv

import (
	"bytes"
	"context"
	cryptorand "crypto/rand"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/payload"
	"github.com/windows-machine-config/wmco/payload/build"
)

// startHosts starts the simulated hosts, and lists all hosts.
func (env *Env) startHosts(o Options) error {
	for _, h := range env.Lab.Hosts() {
		env.hosts = append(env.hosts, Host{Name: h.Name(), Address: h.Address(), Port: sshPort})
	}
	for _, name := range names(o.SimulatedHosts) {
		if _, _, err := env.AddSimulated(sim.Options{Windows: sim.WindowsOptions{Hostname: name, NoQuirks: o.NoQuirks}}); err != nil {
			return err
		}
	}
	return nil
}

// AddSimulated starts another simulated host. The key of the Env can log in unless the options have other keys. SSH answers on port 22
// of an address that the host reports as its own.
func (env *Env) AddSimulated(o sim.Options) (*sim.Host, Host, error) {
	at := Host{Name: strings.ToLower(o.Windows.Hostname), Address: env.UnusedAddress(), Port: sshPort}
	o.Windows.Root = filepath.Join(env.folder.Path, "hosts", strconv.Itoa(len(env.simulated)))
	o.ListenAddr = at.endpoint()
	o.User = User
	if o.AuthorizedKeys == nil {
		o.AuthorizedKeys = []ssh.PublicKey{env.authorized}
	}
	host, err := sim.Start(context.Background(), o)
	if err != nil {
		return nil, Host{}, err
	}
	env.simulated, env.hosts = append(env.simulated, host), append(env.hosts, at)
	return host, at, nil
}

// simulatedLogs returns the ends of the logs of WICD on simulated hosts, unless there are many.
func (env *Env) simulatedLogs() string {
	const many = 5
	if len(env.simulated) > many {
		return ""
	}
	var text strings.Builder
	for _, h := range env.simulated {
		log, err := h.Windows().Disk().Read(desired.WICDLog)
		fmt.Fprintf(&text, "\n%s, %s\nWICD, a service that is %+v (%v):\n%s", h.Addr(), h.Windows().DescribeQuirks(), h.Windows().Service(api.WICDService), err, log[max(0, len(log)-4000):])
	}
	return text.String()
}

// UnusedAddress returns an address without a host, which refuses connections immediately. Only an Env without Wine hosts has such
// addresses.
func (env *Env) UnusedAddress() string { return env.addresses.Next().String() }

// Simulated returns the simulated hosts.
func (env *Env) Simulated() []*sim.Host { return env.simulated }

// wicdBytes is the size of WICD on simulated hosts.
const wicdBytes = 64 << 10

// simulatedPayload writes a small payload, whose programs simulated hosts verify but do not run. Their content is random, so that
// compression does not change the sizes of transfers.
func simulatedPayload(ctx context.Context, dir string, programBytes int) error {
	set := build.Set{Stub: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader([]byte("stub"))), nil }}
	for _, path := range []string{
		"kubelet.exe", "kube-log-runner.exe", "containerd/containerd.exe", "windows_exporter.exe", payload.WICD, "azure-cloud-node-manager.exe",
	} {
		size, group := programBytes, payload.Base
		switch path {
		case payload.WICD:
			size = wicdBytes
		case "azure-cloud-node-manager.exe":
			group = payload.Azure
		}
		content := make([]byte, size)
		_, _ = cryptorand.Read(content) // never fails
		set.Files = append(set.Files, build.Content{
			Path: path, Component: path, Version: "simulated", Group: group, Open: build.Bytes(content),
		})
	}
	_, err := build.Write(ctx, dir, set)
	return err
}

func names(n int) []string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("win-%d", i+1))
	}
	return list
}
