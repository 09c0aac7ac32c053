package sim

import (
	"fmt"
	"math/rand/v2"

	"github.com/windows-machine-config/wmco/internal/testing/sshserver"
)

// oldOpenSSH is the version in Windows Server 2019.
const oldOpenSSH = "SSH-2.0-OpenSSH_for_Windows_7.7"

func randomShell(r *rand.Rand) sshserver.Quirks {
	sometimes := func() bool { return r.IntN(3) == 0 }
	q := sshserver.Quirks{
		Version:    []string{oldOpenSSH, "SSH-2.0-OpenSSH_for_Windows_8.1", "SSH-2.0-OpenSSH_for_Windows_9.5"}[r.IntN(3)],
		PowerShell: sometimes(), RunsOn: sometimes(), NoProfile: sometimes(),
	}
	if sometimes() {
		q.Profile = "Welcome to " + fmt.Sprint(r.IntN(100)) + "\r\n{\"not\":\"an answer\"}\r\n"
	}
	if sometimes() {
		q.StdinBlocks = 1 + r.IntN(4096)
	}
	switch {
	case q.Version == oldOpenSSH && sometimes():
		q.StdinStalls = 4096
	case sometimes():
		q.StdinEnds = 1 + r.Int64N(8192)
	}
	return q
}
