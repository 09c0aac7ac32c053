//go:build linux

package lab

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/user"
	"strconv"
	"strings"
	"text/template"

	"golang.org/x/crypto/ssh"

	"github.com/windows-machine-config/wmco/internal/testing/sshserver"
	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
	"github.com/windows-machine-config/wmco/lab/windows/hostspec"
)

// Programs of Debian's packages openssh-server and openssh-client, and the first one's user.
const (
	opensshProgram = "/usr/sbin/sshd"
	opensshFiles   = "/usr/lib/openssh/sftp-server"
	opensshClient  = "/usr/bin/ssh"
	opensshUser    = "sshd"
)

// behindPort is the port of the lab's own SSH server behind OpenSSH, on the host's loopback link.
const behindPort = 2022

// CanRunOpenSSH returns an error if this machine cannot run hosts with Debian's OpenSSH server.
func CanRunOpenSSH() error {
	for _, program := range []string{opensshProgram, opensshFiles, opensshClient} {
		if err := findService(program, "openssh-server"); err != nil {
			return err
		}
	}
	if _, err := user.Lookup(opensshUser); err != nil {
		return fmt.Errorf("%w; install Debian's openssh-server", err)
	}
	return CanRunWindows()
}

// openssh is Debian's OpenSSH server at port 22 of a host, in the host's network, with the host's key and authorized keys. Its
// own SFTP server serves drive C:; it forwards commands to the lab's server, which runs them in the shell of Windows.
type openssh struct {
	*service
	key ssh.Signer // with which it logs in to the lab's server
	pem []byte
}

// newOpenSSH prepares the server of a host.
func (l *Lab) newOpenSSH() (*openssh, error) {
	if err := CanRunOpenSSH(); err != nil {
		return nil, err
	}
	key, text, err := sshserver.NewKey()
	if err != nil {
		return nil, fmt.Errorf("creating a key: %w", err)
	}
	s, err := l.newService("/bin/sh")
	if err != nil {
		return nil, err
	}
	return &openssh{service: s, key: key, pem: text}, nil
}

// files returns the configuration of the lab's server behind it, by path on the host.
func (o *openssh) files(authorized []byte) map[string][]byte {
	return map[string][]byte{
		guestapi.SSHListenFile:      []byte(net.JoinHostPort("127.0.0.1", strconv.Itoa(behindPort))),
		guestapi.AuthorizedKeysFile: append(ssh.MarshalAuthorizedKey(o.key.PublicKey()), authorized...),
	}
}

// opensshStart runs the server in the host's network namespace, with an /etc/passwd that has the Windows user.
const opensshStart = `mount --bind {{.Folder}}/passwd /etc/passwd
exec nsenter --net=/proc/{{.PID}}/ns/net {{.Program}} -D -e -f {{.Folder}}/config
`

const opensshConfig = `ListenAddress 0.0.0.0
HostKey {{.Folder}}/host_key
AuthorizedKeysFile {{.Keys}}
PidFile none
StrictModes no
PermitRootLogin yes
PasswordAuthentication no
Subsystem sftp {{.Files}}
ForceCommand {{.Folder}}/shell
`

const opensshShell = `#!/bin/sh
case "$SSH_ORIGINAL_COMMAND" in
{{.Files}}*) exec {{.Files}} -d {{.Home}} ;;
esac
exec {{.Client}} -T -F none -i {{.Folder}}/key -o UserKnownHostsFile={{.Folder}}/known_hosts -p {{.Port}} -l {{.User}} 127.0.0.1 "$SSH_ORIGINAL_COMMAND"
`

// startOn starts the server in the network of a host whose own server listens.
func (o *openssh) startOn(ctx context.Context, h *Host) error {
	o.Stop()
	if err := o.prepare(h); err != nil {
		return fmt.Errorf("preparing the OpenSSH server of %s: %w", h.name, err)
	}
	o.command = []string{"-e", hostspec.ServiceFolder + "/start"}
	o.answers = func(context.Context) error { return h.checkPort(sshPort) }
	return o.Start(ctx)
}

func (o *openssh) prepare(h *Host) error {
	pid, err := h.pid()
	if err != nil {
		return err
	}
	hostKey, err := h.ReadFile(guestapi.HostKeyFile)
	if err != nil {
		return err
	}
	public, err := h.HostKey()
	if err != nil {
		return err
	}
	keys, err := h.Path(guestapi.AuthorizedKeysFile)
	if err != nil {
		return err
	}
	home, err := h.Path(`C:\users\` + h.lab.user())
	if err != nil {
		return err
	}
	accounts, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return fmt.Errorf("reading this machine's accounts: %w", err)
	}
	known := fmt.Sprintf("[127.0.0.1]:%d %s", behindPort, ssh.MarshalAuthorizedKey(public))
	err = o.write(map[string][]byte{
		"host_key": hostKey, "key": o.pem, "known_hosts": []byte(known), "passwd": append(accounts, h.lab.user()+":x:0:0::/:/bin/sh\n"...),
	})
	values := map[string]any{
		"Folder": hostspec.ServiceFolder, "PID": pid, "Program": opensshProgram, "Files": opensshFiles, "Client": opensshClient,
		"Keys": keys, "Home": home, "Port": behindPort, "User": h.lab.user(),
	}
	for name, text := range map[string]string{"start": opensshStart, "config": opensshConfig, "shell": opensshShell} {
		var b strings.Builder
		if err == nil {
			err = template.Must(template.New(name).Parse(text)).Execute(&b, values)
		}
		if err == nil {
			err = o.write(map[string][]byte{name: []byte(b.String())})
		}
	}
	if err != nil {
		return err
	}
	if err := os.Chmod(o.path("shell"), 0o755); err != nil {
		return fmt.Errorf("making the shell a program: %w", err)
	}
	return os.MkdirAll("/run/sshd", 0o755) // Debian's unit creates it
}
