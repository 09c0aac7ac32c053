//go:build windows

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hirochachacha/go-smb2"
)

// timeout limits a call to a file server or a driver.
const timeout = 30 * time.Second

// mappingFile returns the file that records the mapping of a share: Windows keeps it in its SMB client, which Wine lacks. The
// image sets the folder.
func mappingFile(remote string) string {
	return filepath.Join(os.Getenv("SMB_MAPPINGS"), strings.ReplaceAll(strings.TrimPrefix(strings.ToLower(remote), `\\`), `\`, "_"))
}

func getMapping(remote string) error {
	_, err := os.Stat(mappingFile(remote))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("Get-SmbGlobalMapping : No MSFT_SmbGlobalMapping objects found with property 'RemotePath' equal to '%s'.", remote) //nolint:staticcheck // Windows' text
	}
	if err != nil {
		return err
	}
	fmt.Println("OK")
	return nil
}

// newMapping logs in to a share as Windows does, and records the mapping. The user has the form DOMAIN\name.
func newMapping(remote, user, password string) error {
	server, share, found := strings.Cut(strings.TrimPrefix(remote, `\\`), `\`)
	domain, name, qualified := strings.Cut(user, `\`)
	if !found || !qualified {
		return fmt.Errorf(`got share %q and user %q, want \\server\share and DOMAIN\name`, remote, user)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(server, "445"))
	if err != nil {
		return fmt.Errorf("New-SmbGlobalMapping : The network path was not found. (%w)", err) //nolint:staticcheck // Windows' text
	}
	defer conn.Close()
	dialer := smb2.Dialer{Initiator: &smb2.NTLMInitiator{User: name, Password: password, Domain: domain}}
	session, err := dialer.DialContext(ctx, conn)
	if err != nil {
		return fmt.Errorf("New-SmbGlobalMapping : The user name or password is incorrect. (%w)", err) //nolint:staticcheck // Windows' text
	}
	defer func() { _ = session.Logoff() }()
	mounted, err := session.WithContext(ctx).Mount(`\\` + server + `\` + share)
	if err != nil {
		return fmt.Errorf("New-SmbGlobalMapping : The network name cannot be found. (%w)", err) //nolint:staticcheck // Windows' text
	}
	if _, err := mounted.ReadDir(""); err != nil {
		return fmt.Errorf("New-SmbGlobalMapping : Access is denied. (%w)", err) //nolint:staticcheck // Windows' text
	}
	if err := mounted.Umount(); err != nil {
		return err
	}
	file := mappingFile(remote)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(user), 0o600)
}
