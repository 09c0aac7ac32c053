package join

import (
	"strings"

	"github.com/windows-machine-config/wmco/internal/agent"
)

// handsOnPoorly tells of an SSH server that it may not hand on to a program all that it is sent. OpenSSH 7.7, which Windows Server 2019 comes
// with, is said to lose what does not fit into a pipe of 4 KiB; Ansible supports 7.9 and later for that
// (https://docs.ansible.com/ansible/latest/os_guide/windows_ssh.html).
func handsOnPoorly(version string) bool {
	return strings.HasPrefix(version, "SSH-2.0-OpenSSH_for_Windows_7.")
}

// converse has a conversation with WICD. Where its input does not arrive as it was sent, the conversation is repeated, and goes by files from
// then on.
func (v *Visit) converse(step string, talk func(agent.Runner) error) error {
	if !v.byFiles {
		err := talk(v.host)
		if !isTruncated(err) {
			return err
		}
		v.byFiles = true
		v.say(step, "sending by files what the host's SSH server did not hand on: "+err.Error())
	}
	return talk(agent.ByFiles{Host: v.host})
}

// isTruncated tells that WICD did not get what was sent.
func isTruncated(err error) bool {
	failed := agent.Failed(err)
	return failed != nil && (failed.Code == agent.CodeInputEnded || failed.Code == agent.CodeContentAltered)
}
