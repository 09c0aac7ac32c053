//go:build linux

package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
	"github.com/windows-machine-config/wmco/lab/windows/hostspec"
)

// bootTimeout is how long a host may take to boot; on two busy cores it takes 20 s.
const bootTimeout = 2 * time.Minute

// A Host is a Windows host: Wine in its own namespaces, with a host name, an address, a drive C:, a registry, services, and an
// SSH server. All methods except Boot return errOff unless the host is on.
type Host struct {
	lab    *Lab
	name   string
	number int    // last byte of the address
	dir    string // its layer over the template; kept while the host is off
	// authorized are the public keys of the user that may log in, as in authorized_keys.
	authorized []byte
	// openssh serves port 22 in place of the lab's SSH server. It is nil if the lab's server does.
	openssh *openssh

	mu     sync.Mutex
	reaper *reaper // nil while off
}

var errOff = errors.New("the host is off")

// Name returns the host name.
func (h *Host) Name() string { return h.name }

// Address returns the host's IPv4 address.
func (h *Host) Address() string { return h.lab.network.address(h.number) }

// Boot turns the host on and returns when its SSH server answers.
func (h *Host) Boot(ctx context.Context) error {
	if err := h.turnOn(); err != nil {
		return fmt.Errorf("booting %s: %w", h.name, err)
	}
	if err := h.waitForBoot(ctx, func(uint32) bool { return true }); err != nil {
		return fmt.Errorf("booting %s: %w", h.name, err)
	}
	if h.openssh == nil {
		return nil
	}
	return h.openssh.startOn(ctx, h)
}

func (h *Host) turnOn() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reaper != nil {
		return errors.New("the host is already on")
	}
	spec := hostspec.Host{
		Name: h.name, Names: map[string]string{h.name: h.Address(), MachineName: h.lab.Address()}, Template: h.lab.template, Wine: h.lab.wine,
		PodNetwork: h.lab.network.pods(), NFT: findNFT(), Cgroup: filepath.Join(filepath.Base(h.lab.dir), h.name),
		Files: map[string][]byte{
			guestapi.UserFile:           []byte(h.lab.user()),
			guestapi.AuthorizedKeysFile: h.authorized,
		},
	}
	if h.openssh != nil {
		maps.Copy(spec.Files, h.openssh.files(h.authorized))
	}
	if err := hostspec.Write(h.dir, spec); err != nil {
		return err
	}
	r, err := startReaper(h.lab.reaper, hostNamespaces, "host", h.dir)
	if err != nil {
		return err
	}
	if err := h.lab.network.addHost(h.number, r.cmd.Process.Pid); err != nil {
		r.stop()
		return err
	}
	if err := r.send("boot"); err != nil {
		r.stop()
		return err
	}
	h.reaper = r
	return nil
}

// PowerOff kills every process of the host, as a power failure does. Changes of the registry that Wine has not written yet (up to
// 30 seconds) are lost.
func (h *Host) PowerOff() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reaper == nil {
		return
	}
	if h.openssh != nil {
		h.openssh.Stop()
	}
	_ = h.reaper.cmd.Process.Kill()
	h.reaper.stop()
	h.reaper = nil
	h.lab.network.removeHost(h.number)
}

// Reboot restarts Windows properly, and returns when its SSH server answers again.
func (h *Host) Reboot(ctx context.Context) error {
	before, err := h.BootID(ctx)
	if err != nil {
		return fmt.Errorf("rebooting %s: %w", h.name, err)
	}
	if err := h.call(ctx, guestapi.ShutdownPath, guestapi.Shutdown{Reboot: true}, &guestapi.Nothing{}); err != nil {
		return fmt.Errorf("rebooting %s: %w", h.name, err)
	}
	return h.WaitForReboot(ctx, before)
}

// WaitForReboot returns when the host has another boot id than before, and its SSH server answers.
func (h *Host) WaitForReboot(ctx context.Context, before uint32) error {
	if err := h.waitForBoot(ctx, func(id uint32) bool { return id != before }); err != nil {
		return fmt.Errorf("waiting for the reboot of %s: %w", h.name, err)
	}
	return nil
}

// BootID returns the registry's BootId, which increases by one at each boot.
func (h *Host) BootID(ctx context.Context) (uint32, error) {
	var boot guestapi.Boot
	err := h.call(ctx, guestapi.BootPath, guestapi.Nothing{}, &boot)
	return boot.ID, err
}

func (h *Host) waitForBoot(ctx context.Context, wanted func(bootID uint32) bool) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout(bootTimeout))
	defer cancel()
	return Until(ctx, 50*time.Millisecond, "Windows", func(ctx context.Context) error {
		id, err := h.BootID(ctx)
		if err == nil && !wanted(id) {
			err = fmt.Errorf("the boot ID is still %d", id)
		}
		if err == nil {
			err = h.checkSSH()
		}
		return err
	}, h.failure)
}

// checkSSH checks that the lab's SSH server listens. It does not connect, because the server counts connections.
func (h *Host) checkSSH() error {
	if h.openssh != nil {
		return h.checkPort(behindPort)
	}
	return h.checkPort(sshPort)
}

func (h *Host) checkPort(port int) error {
	pid, err := h.pid()
	if err != nil {
		return err
	}
	if !listening(pid, port) {
		return fmt.Errorf("nothing listens on port %d", port)
	}
	return nil
}

const sshPort = 22

// failure returns why the host went down on its own, or nil while it is on.
func (h *Host) failure() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reaper == nil {
		return errOff
	}
	return h.reaper.failure()
}

// pid returns the host's first process.
func (h *Host) pid() (int, error) {
	if err := h.failure(); err != nil {
		return 0, err
	}
	return h.reaper.cmd.Process.Pid, nil
}

// Cut disables the host's network link: packets are lost, connections hang.
func (h *Host) Cut() error { return h.lab.network.cut(h.number) }

// Heal enables the host's network link.
func (h *Host) Heal() error { return h.lab.network.heal(h.number) }

// CutConnections resets every TCP connection between the host and others; both ends get an error. New connections work.
func (h *Host) CutConnections() error {
	pid, err := h.pid()
	if err != nil {
		return err
	}
	return resetConnections(pid)
}

// Exec runs a command line on the host as Administrator, without a shell and without SSH.
func (h *Host) Exec(ctx context.Context, commandLine string) (guestapi.ExecResult, error) {
	var result guestapi.ExecResult
	err := h.call(ctx, guestapi.ExecPath, guestapi.ExecRequest{CommandLine: commandLine}, &result)
	return result, err
}

// Services returns all services, including Wine's own.
func (h *Host) Services(ctx context.Context) ([]guestapi.Service, error) {
	var list []guestapi.Service
	err := h.call(ctx, guestapi.ServicesPath, guestapi.Nothing{}, &list)
	return list, err
}

// ReadRegistry returns a value; found is false if it does not exist. Keys begin with HKLM\ or HKCU\.
func (h *Host) ReadRegistry(ctx context.Context, key, name string) (v guestapi.RegistryValue, found bool, err error) {
	var a guestapi.RegistryAnswer
	err = h.call(ctx, guestapi.RegistryGetPath, guestapi.RegistryName{Key: key, Name: name}, &a)
	return a.Value, a.Found, err
}

// WriteRegistry writes a value, and creates its key if needed.
func (h *Host) WriteRegistry(ctx context.Context, key, name string, v guestapi.RegistryValue) error {
	e := guestapi.RegistryEntry{RegistryName: guestapi.RegistryName{Key: key, Name: name}, Value: v}
	return h.call(ctx, guestapi.RegistrySetPath, e, &guestapi.Nothing{})
}

// call sends a request to the guest, over the loopback network of the host.
func (h *Host) call(ctx context.Context, path string, in, out any) error {
	pid, err := h.pid()
	if err != nil {
		return err
	}
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encoding the request: %w", err)
	}
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return dialInside(ctx, pid, address)
		},
	}
	url := "http://127.0.0.1:" + strconv.Itoa(guestapi.Port) + path
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("creating the request: %w", err)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("calling the guest of %s: it is not running yet: %w", h.name, err)
	}
	if err != nil {
		return fmt.Errorf("calling the guest of %s: %w", h.name, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		return fmt.Errorf("calling the guest of %s: %s", h.name, strings.TrimSpace(string(text)))
	}
	if err := json.NewDecoder(response.Body).Decode(out); err != nil {
		return fmt.Errorf("decoding the answer of %s: %w", h.name, err)
	}
	return nil
}
