//go:build linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/windows-machine-config/wmco/lab/windows/hostspec"
)

// A service is a program of this machine that the lab runs for its hosts. It has its own PID and mount namespaces: all of its
// processes end with its reaper, whichever user they run as, and its shared memory is removed.
type service struct {
	program string // for messages
	command []string
	folder  *Folder
	reaper  string
	// answers returns nil once the service serves.
	answers func(context.Context) error

	mu      sync.Mutex
	running *reaper // nil while stopped
}

// serviceTimeout is how long a service may take to serve; on two busy cores it takes 2 s.
const serviceTimeout = 30 * time.Second

// listens returns a check that a service listens at a TCP address.
func listens(address string) func(context.Context) error {
	return func(ctx context.Context) error {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// findService checks that a program of a Debian package is installed.
func findService(path, debianPackage string) error {
	if _, err := exec.LookPath(path); err != nil {
		return fmt.Errorf("%s not found; install Debian's %s", path, debianPackage)
	}
	return nil
}

// prepareServices prepares a lab without hosts and Linux node for services.
func (l *Lab) prepareServices(ctx context.Context) (err error) {
	if l.reaper != "" {
		return nil
	}
	if err := CanHaveHosts(); err != nil {
		return err
	}
	l.reaper, err = l.cache.build(ctx, reaperProgram())
	return err
}

// newService creates the folder of a service, which ends with the lab.
func (l *Lab) newService(program string) (*service, error) {
	if l.reaper == "" {
		return nil, errors.New("the lab was opened without hosts and Linux node")
	}
	folder, err := newFolder(l.reaper, filepath.Base(program))
	if err != nil {
		return nil, err
	}
	s := &service{program: program, folder: folder, reaper: l.reaper}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.services = append(l.services, s)
	return s, nil
}

// Start starts the service unless it is running, and returns when it serves.
func (s *service) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		return nil
	}
	args := append([]string{"service", s.folder.Path, s.program}, s.command...)
	r, err := startReaper(s.reaper, syscall.CLONE_NEWPID|syscall.CLONE_NEWNS, args...)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, serviceTimeout)
	defer cancel()
	if err := Until(ctx, 20*time.Millisecond, "its answer", s.answers, r.failure); err != nil {
		r.stop()
		return fmt.Errorf("starting %s: %w; its log ends with:\n%s", s.program, err, tail(s.log(), 2000))
	}
	s.running = r
	return nil
}

// Stop kills the service. Its files stay for another Start.
func (s *service) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		s.running.stop()
		s.running = nil
	}
}

// log returns the path of the service's output since its first start.
func (s *service) log() string { return s.path(hostspec.ServiceLog) }

// path returns the path of a file of the service on this machine.
func (s *service) path(name string) string { return filepath.Join(s.folder.Path, name) }

func (s *service) write(files map[string][]byte) error {
	for name, content := range files {
		if err := os.WriteFile(s.path(name), content, 0o600); err != nil {
			return fmt.Errorf("writing the files of %s: %w", s.program, err)
		}
	}
	return nil
}

// changeOwner makes a user the owner of the folder and its files.
func (s *service) changeOwner(user string) error {
	if out, err := exec.Command("chown", "-R", user, s.folder.Path).CombinedOutput(); err != nil {
		return fmt.Errorf("changing the owner of the files of %s to %s: %w: %s", s.program, user, err, out)
	}
	return nil
}

func (s *service) close() {
	s.Stop()
	s.folder.Remove()
}
