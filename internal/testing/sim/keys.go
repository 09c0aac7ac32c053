package sim

import (
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/testing/sshserver"
)

// keysFile is where OpenSSH for Windows stores the keys of administrators.
const keysFile = `C:\ProgramData\ssh\administrators_authorized_keys`

// keyring is that file, with the one user of the host.
type keyring struct {
	user string
	disk hostapi.Disk
}

// create creates the file if it does not exist.
func (k *keyring) create(keys []ssh.PublicKey) error {
	if k.disk.Exists(keysFile) {
		return nil
	}
	var content strings.Builder
	for _, key := range keys {
		content.WriteString(strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) + "\r\n")
	}
	_, err := k.disk.WriteFile(keysFile, content.String())
	return err
}

// of returns the keys that a user may log in with now.
func (k *keyring) of(user string) []ssh.PublicKey {
	content, err := k.disk.Read(keysFile)
	if err != nil || !strings.EqualFold(user, k.user) {
		return nil
	}
	return sshserver.ParseKeys(content)
}
