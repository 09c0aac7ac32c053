//go:build linux

package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/windows-machine-config/wmco/internal/testing/controlplane"
	"github.com/windows-machine-config/wmco/lab/windows/hostspec"
)

// Options are the options of a Lab.
type Options struct {
	// Hosts are the names of the Windows hosts to boot. A lab without hosts is a control plane on Address and does not need
	// root.
	Hosts []string
	// Address is the address of this machine on which the API server listens in a lab without hosts; 127.0.0.1 if empty, at
	// which the operator sends no hosts.
	Address string
	// User is the user who can log in to the hosts; Administrator if empty.
	User string
	// AuthorizedKeys are the keys that can log in, in the format of an authorized_keys file.
	AuthorizedKeys []byte
	// OpenSSH runs Debian's OpenSSH server at port 22 of hosts; see CanRunOpenSSH.
	OpenSSH bool
	// Kubernetes is the version that the control plane reports; see ControlPlaneOptions.
	Kubernetes string
	// DualStack gives Services addresses of both families if they request them.
	DualStack bool
	// NoPodCIDRs leaves spec.podCIDRs of Nodes empty; see ControlPlaneOptions.
	NoPodCIDRs bool
	// LinuxNode prepares the lab for StartLinuxNode. A lab with hosts always is.
	LinuxNode bool
	// WithoutControlPlane omits the control plane, for tests of hosts alone.
	WithoutControlPlane bool
	// Progress gets a line for each operation that takes more than two seconds; standard error if nil.
	Progress io.Writer
}

// A Lab is a control plane and Windows hosts on their own network. It ends with the process that opened it, even if that is
// killed.
type Lab struct {
	// ControlPlane is nil with WithoutControlPlane.
	ControlPlane *ControlPlane

	options  Options
	cache    cache
	template string
	reaper   string
	wine     hostspec.Wine
	dir      string
	network  *network // nil without hosts and Linux node

	registries *controlplane.Authority // signs the certificates of registries

	mu       sync.Mutex
	hosts    []*Host
	services []*service
	linux    []*LinuxNode
}

// Prepare builds everything that labs run unless it is in the cache: the control plane and, where they can run, hosts.
func Prepare(ctx context.Context, progress io.Writer) error {
	c, err := openCache(ctx, progress)
	if err != nil {
		return err
	}
	programs := []program{controlPlaneProgram()}
	if CanRunLinuxNodes() == nil {
		programs = append(append(programs, linuxPauseProgram()), linuxNodePrograms()...)
	}
	if err := CanRunWindows(); err != nil {
		return c.prepare(ctx, append(programs, reaperProgram())...)
	}
	var builds errgroup.Group
	builds.Go(func() error { return c.prepare(ctx, programs...) })
	builds.Go(func() error {
		_, err := c.template(ctx)
		return errors.Join(err, c.prepare(ctx, webserverProgram(), wincatProgram(), criProgram(), computeProgram()))
	})
	return builds.Wait()
}

// Open builds everything that is not in the cache, and returns when the control plane serves and SSH answers on every host. The
// context limits the start only. Without root or Wine, options with hosts give an error that wraps ErrNoWindows.
func Open(ctx context.Context, o Options) (*Lab, error) {
	l := &Lab{options: o}
	if err := l.open(ctx); err != nil {
		l.Close()
		return nil, fmt.Errorf("opening the lab: %w", err)
	}
	return l, nil
}

func (l *Lab) open(ctx context.Context) error {
	var err error
	if l.cache, err = openCache(ctx, l.options.Progress); err != nil {
		return err
	}
	if l.registries, err = controlplane.NewAuthority(); err != nil {
		return err
	}
	if len(l.options.Hosts) > 0 {
		if err := l.prepareHosts(ctx); err != nil {
			return err
		}
	}
	if len(l.options.Hosts) > 0 || l.options.LinuxNode {
		if err := l.openNetwork(ctx); err != nil {
			return err
		}
	}
	var starts errgroup.Group
	if !l.options.WithoutControlPlane {
		starts.Go(func() (err error) {
			l.ControlPlane, err = StartControlPlane(ctx, ControlPlaneOptions{
				BindAddress: l.Address(), PodNetwork: l.PodNetwork(), NoPodCIDRs: l.options.NoPodCIDRs, Kubernetes: l.options.Kubernetes,
				DualStack: l.options.DualStack, Progress: l.options.Progress,
			})
			return err
		})
	}
	for _, name := range l.options.Hosts {
		h, err := l.newHost(name, l.options.AuthorizedKeys)
		if err != nil {
			return errors.Join(err, starts.Wait())
		}
		starts.Go(func() error { return h.Boot(ctx) })
	}
	return starts.Wait()
}

// prepareHosts prepares what Windows hosts share.
func (l *Lab) prepareHosts(ctx context.Context) error {
	if err := CanRunWindows(); err != nil {
		return err
	}
	var err error
	if l.template, err = l.cache.template(ctx); err != nil {
		return err
	}
	if l.wine, err = findWine(); err != nil {
		return err
	}
	if l.wine.Preload, err = l.cache.preload(ctx, "wineserver"); err != nil {
		return err
	}
	l.wine.Names, err = l.cache.preload(ctx, "names")
	return err
}

// openNetwork creates the network that the lab's hosts and its Linux node share.
func (l *Lab) openNetwork(ctx context.Context) (err error) {
	if err := CanHaveHosts(); err != nil {
		return err
	}
	if l.reaper, err = l.cache.build(ctx, reaperProgram()); err != nil {
		return err
	}
	if l.dir, err = os.MkdirTemp("", "wmco-lab-hosts-"); err != nil {
		return fmt.Errorf("creating the hosts' folder: %w", err)
	}
	l.network, err = openNetwork(l.reaper, l.dir)
	return err
}

// MachineName is the name that hosts resolve to Lab's Address.
const MachineName = "machine.test"

// Address returns the address at which hosts reach this machine and the API server; without hosts, that of Options.
func (l *Lab) Address() string {
	if l.network == nil {
		return cmp.Or(l.options.Address, "127.0.0.1")
	}
	return l.network.address(1)
}

// PodNetwork returns the range of pod addresses. A lab with Windows hosts has a smaller range, with room for fewer nodes.
func (l *Lab) PodNetwork() string {
	if len(l.options.Hosts) == 0 {
		return PodNetwork
	}
	return l.network.pods()
}

// Hosts returns the hosts in the order of their creation.
func (l *Lab) Hosts() []*Host {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.hosts)
}

// AddHost boots another host in a lab that has hosts.
func (l *Lab) AddHost(ctx context.Context, name string) (*Host, error) {
	return l.AddHostFor(ctx, name, l.options.AuthorizedKeys)
}

// AddHostFor is like AddHost with other authorized keys, in the format of an authorized_keys file.
func (l *Lab) AddHostFor(ctx context.Context, name string, keys []byte) (*Host, error) {
	if l.template == "" {
		return nil, errors.New("adding a host: the lab was opened without hosts")
	}
	h, err := l.newHost(name, keys)
	if err != nil {
		return nil, err
	}
	return h, h.Boot(ctx)
}

func (l *Lab) newHost(name string, keys []byte) (*Host, error) {
	var front *openssh
	if l.options.OpenSSH {
		var err error
		if front, err = l.newOpenSSH(); err != nil {
			return nil, fmt.Errorf("creating host %s: %w", name, err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	h := &Host{openssh: front, lab: l, name: name, number: firstHost + len(l.hosts), dir: filepath.Join(l.dir, name), authorized: keys}
	if err := os.Mkdir(h.dir, 0o755); err != nil {
		return nil, fmt.Errorf("creating host %s: %w", name, err)
	}
	l.hosts = append(l.hosts, h)
	return h, nil
}

// user returns the user who can log in to hosts.
func (l *Lab) user() string { return cmp.Or(l.options.User, "Administrator") }

// Close stops everything and removes all files.
func (l *Lab) Close() {
	for _, h := range l.Hosts() {
		h.PowerOff()
	}
	l.mu.Lock()
	services, linux := slices.Clone(l.services), slices.Clone(l.linux)
	l.mu.Unlock()
	for _, n := range linux {
		n.close()
	}
	for _, s := range services {
		s.close()
	}
	if l.ControlPlane != nil {
		l.ControlPlane.Stop()
	}
	if l.network != nil {
		l.network.close()
	}
}

// Start opens a lab for a test and closes it at the test's end. Where Windows hosts cannot run, it skips the test with the
// reason. If the test fails, it logs the hosts' logs.
func Start(t testing.TB, o Options) *Lab {
	t.Helper()
	if len(o.Hosts) > 0 {
		if err := CanRunWindows(); err != nil {
			t.Skip(err)
		}
	}
	l, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(l.Logs())
		}
		l.Close()
	})
	return l
}

// Logs returns the ends of all logs: of the control plane's programs, and of each host's services.
func (l *Lab) Logs() string {
	const size = 4000
	var b strings.Builder
	if l.ControlPlane != nil {
		for _, program := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
			fmt.Fprintf(&b, "--- %s\n%s\n", program, l.ControlPlane.Log(program, size))
		}
	}
	l.mu.Lock()
	linux := slices.Clone(l.linux)
	l.mu.Unlock()
	for _, n := range linux {
		b.WriteString(n.logs(size))
	}
	for _, h := range l.Hosts() {
		fmt.Fprintf(&b, "--- %s: console\n%s\n", h.Name(), tail(filepath.Join(h.dir, "console.log"), size))
		for _, path := range h.logFiles() {
			fmt.Fprintf(&b, "--- %s: %s\n%s\n", h.Name(), path, tail(path, size))
		}
	}
	return b.String()
}
