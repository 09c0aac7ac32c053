package join

import (
	"strings"

	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// handsOnPoorly reports whether an SSH server may not pass all of its input on to a program. OpenSSH 7.7, which ships with Windows Server 2019,
// reportedly loses input beyond a 4 KiB pipe; Ansible requires 7.9 or later for this reason
// (https://docs.ansible.com/ansible/latest/os_guide/windows_ssh.html).
func handsOnPoorly(version string) bool {
	return strings.HasPrefix(version, "SSH-2.0-OpenSSH_for_Windows_7.")
}

// converse runs a conversation with WICD. If WICD's input arrives incomplete or altered, it repeats the conversation with files as input, and uses
// files from then on.
func (v *Visit) converse(step string, talk func(wicdapi.Runner) error) error {
	if !v.byFiles {
		err := talk(v.host)
		if !isTruncated(err) {
			return err
		}
		v.byFiles = true
		v.progress(step, "sending the input as files, because the host's SSH server did not pass it on: "+err.Error())
	}
	return talk(wicdapi.ByFiles{Host: v.host})
}

// isTruncated reports whether WICD did not receive its input as it was sent.
func isTruncated(err error) bool {
	failed := wicdapi.Failed(err)
	return failed != nil && (failed.Code == wicdapi.CodeInputEnded || failed.Code == wicdapi.CodeContentAltered)
}
