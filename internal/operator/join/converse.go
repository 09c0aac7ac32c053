package join

import (
	"strings"

	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// losesInput reports whether an SSH server may not forward all of its input to a program. OpenSSH 7.7, which ships with Windows Server 2019,
// reportedly loses input beyond a 4 KiB pipe; Ansible requires 7.9 or later for this reason
// (https://docs.ansible.com/ansible/latest/os_guide/windows_ssh.html).
func losesInput(version string) bool {
	return strings.HasPrefix(version, "SSH-2.0-OpenSSH_for_Windows_7.")
}

// exchange runs one exchange of a request and its response with WICD. If WICD's input arrives incomplete or altered, it repeats the exchange with files
// as input, and uses files from then on.
func (v *Visit) exchange(step string, send func(wicdapi.Runner) error) error {
	if !v.byFiles {
		err := send(v.host)
		if !isTruncated(err) {
			return err
		}
		v.byFiles = true
		v.progress(step, "sending the input as files, because the host's SSH server did not pass it on: "+err.Error())
	}
	return send(wicdapi.ByFiles{Host: v.host})
}

// isTruncated reports whether WICD did not receive its input as it was sent.
func isTruncated(err error) bool {
	failed := wicdapi.Failed(err)
	return failed != nil && (failed.Code == wicdapi.CodeInputEnded || failed.Code == wicdapi.CodeContentAltered)
}
