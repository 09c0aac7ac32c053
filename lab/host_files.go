//go:build linux

package lab

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/windows-machine-config/wmco/internal/testing/sshserver"
	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
	"github.com/windows-machine-config/wmco/lab/windows/hostspec"
)

// ReadFile reads a file of the host, such as C:\k\kubelet.conf. Names are not case-sensitive.
func (h *Host) ReadFile(path string) ([]byte, error) {
	local, err := h.Path(path)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(local)
}

// WriteFile writes a file of the host, and creates its folders.
func (h *Host) WriteFile(path string, content []byte) error {
	local, err := h.Path(path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(local), 0o755); err != nil {
		return fmt.Errorf("creating the folder of %s: %w", path, err)
	}
	return os.WriteFile(local, content, 0o755)
}

// Stat describes a file of the host.
func (h *Host) Stat(path string) (fs.FileInfo, error) {
	local, err := h.Path(path)
	if err != nil {
		return nil, err
	}
	return os.Stat(local)
}

// Path returns the path of a host's file in this machine, whether the file exists or not. It is valid until the host goes down.
func (h *Host) Path(path string) (string, error) {
	pid, err := h.pid()
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(strings.ToUpper(path), "C:") {
		return "", fmt.Errorf("finding %s: want a path on drive C:", path)
	}
	return hostspec.OnDrive(filepath.Join("/proc", strconv.Itoa(pid), "root", hostspec.Prefix, "drive_c"), path), nil
}

// HostKey returns the public host key of the SSH server.
func (h *Host) HostKey() (ssh.PublicKey, error) {
	raw, err := h.ReadFile(guestapi.HostKeyFile)
	if err != nil {
		return nil, err
	}
	signer, err := ssh.ParsePrivateKey(raw)
	if err != nil {
		return nil, fmt.Errorf("parsing the host key: %w", err)
	}
	return signer.PublicKey(), nil
}

// Stats returns what SSH clients have done on this host since it was created.
func (h *Host) Stats() (sshserver.Counters, error) {
	path, err := h.Path(guestapi.StatsFile)
	if err != nil {
		return sshserver.Counters{}, err
	}
	return sshserver.ReadCounters(path)
}

// SetSSHQuirks changes the quirks of the host's SSH server, for new connections.
func (h *Host) SetSSHQuirks(q sshserver.Quirks) error {
	text, err := json.Marshal(q)
	if err != nil {
		return fmt.Errorf("encoding the quirks: %w", err)
	}
	return h.WriteFile(guestapi.SSHQuirksFile, text)
}

// PowerShellStarts returns the command lines of all starts of PowerShell by its name or usual path. Starts of a copy are not
// recorded.
func (h *Host) PowerShellStarts() ([]string, error) {
	raw, err := h.ReadFile(guestapi.PowerShellLog)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var lines []string
	for in := json.NewDecoder(bytes.NewReader(raw)); in.More(); {
		var line string
		if err := in.Decode(&line); err != nil {
			return nil, fmt.Errorf("decoding the record of PowerShell: %w", err)
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// logFiles returns the paths of the services' logs in this machine.
func (h *Host) logFiles() []string {
	var files []string
	for _, pattern := range []string{guestapi.SSHDLog, guestapi.HostComputeLog, `C:\var\log\*.log`, `C:\var\log\*\*.log`, `C:\k\state\journal.jsonl`} {
		path, err := h.Path(pattern)
		if err != nil {
			continue
		}
		found, _ := filepath.Glob(path)
		files = append(files, found...)
	}
	return files
}
