//go:build linux

package lab

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"strings"
	"unicode/utf16"

	"golang.org/x/crypto/md4" //nolint:gosec,staticcheck // what SMB's logon stores

	"github.com/windows-machine-config/wmco/lab/windows/hostspec"
)

const (
	smbdProgram = "/usr/sbin/smbd"
	// SharedFolder is the name of the one share of a FileServer.
	SharedFolder = "reports"
	// unixUser is the account of this machine that Samba requires for its user: one that Debian always has, with its number.
	unixUser = "daemon:1"
)

// CanServeFiles returns an error if this machine cannot run a FileServer.
func CanServeFiles() error { return findService(smbdProgram, "samba") }

// A FileServer is Debian's Samba, on the lab's address. Its only share requires a user, a password and encryption.
type FileServer struct {
	*service
	address string
}

// StartFileServer starts a file server, which ends with the lab.
func (l *Lab) StartFileServer(ctx context.Context, user, password string) (*FileServer, error) {
	s, err := l.newService(smbdProgram)
	if err != nil {
		return nil, err
	}
	s.command = []string{"--foreground", "--no-process-group", "--configfile=" + hostspec.ServiceFolder + "/smb.conf"}
	s.answers = listens(net.JoinHostPort(l.Address(), "445"))
	for _, folder := range []string{"private", "state", SharedFolder} {
		if err := os.Mkdir(s.path(folder), 0o700); err != nil {
			return nil, err
		}
	}
	name, _, _ := strings.Cut(unixUser, ":")
	err = s.write(map[string][]byte{
		"users":     fmt.Appendf(nil, "%s = %s\n", name, user),
		"passwords": fmt.Appendf(nil, "%s:%s:%s:[U          ]:LCT-00000001:\n", unixUser, strings.Repeat("X", 32), ntHash(password)),
		"smb.conf":  fmt.Appendf(nil, sambaConfig, hostspec.ServiceFolder, l.Address(), SharedFolder),
	})
	if err != nil {
		return nil, err
	}
	return &FileServer{s, l.Address()}, s.Start(ctx)
}

// sambaConfig follows smb.conf(5).
const sambaConfig = `[global]
server role = standalone server
interfaces = %[2]s
bind interfaces only = yes
smb ports = 445
disable netbios = yes
disable spoolss = yes
load printers = no
server min protocol = SMB3
server smb encrypt = required
passdb backend = smbpasswd:%[1]s/passwords
username map = %[1]s/users
private dir = %[1]s/private
state directory = %[1]s/state
lock directory = %[1]s/state
cache directory = %[1]s/state
pid directory = %[1]s/state
ncalrpc dir = %[1]s/state/ncalrpc
log file = %[1]s/smbd.log
log level = 1 auth_audit:3
[%[3]s]
path = %[1]s/%[3]s
force user = root
read only = no
`

// ntHash returns a password as SMB's logon stores it (MS-NLMP, 3.3.1).
func ntHash(password string) string {
	var text bytes.Buffer
	for _, u := range utf16.Encode([]rune(password)) {
		text.Write([]byte{byte(u), byte(u >> 8)})
	}
	h := md4.New() //nolint:gosec // as above
	h.Write(text.Bytes())
	return strings.ToUpper(hex.EncodeToString(h.Sum(nil)))
}

// Logons returns the number of successful logons.
func (s *FileServer) Logons() (int, error) {
	text, err := os.ReadFile(s.path("smbd.log"))
	return strings.Count(string(text), "status [NT_STATUS_OK]"), err
}
