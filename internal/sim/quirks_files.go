package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/host"
	"github.com/windows-machine-config/wmco/payload/selfextract"
)

// FileQuirks are those of files and programs: scanners that hold them, software that removes them.
type FileQuirks struct {
	// Held is how long a scanner holds a file, from the first change of its name on: new files, links, renames, removals and truncations
	// fail meanwhile, with HeldCode.
	Held     time.Duration
	HeldCode host.Code
	// Distrusted are the programs that security software does not let run when they come to the host.
	Distrusted Programs
	// Refusal is how starting one of them fails: 225 (ERROR_VIRUS_INFECTED), 1260 (ERROR_ACCESS_DISABLED_BY_POLICY) or 4551
	// (ERROR_SYSTEM_INTEGRITY_POLICY_VIOLATION), of Windows' system error codes. Where it is 0, the file is gone a moment after it came.
	Refusal host.Code
}

// Programs are kinds of programs.
type Programs string

// The kinds of programs that security software distrusts.
const (
	// Unpackers hold another program that they write and start.
	Unpackers Programs = "Unpackers"
	// Strangers are all that no installer put on the host.
	Strangers Programs = "Strangers"
)

func filesByChance(r *rand.Rand) FileQuirks {
	q := FileQuirks{HeldCode: host.HeldCodes()[r.IntN(len(host.HeldCodes()))]}
	if r.IntN(2) == 0 {
		q.Held = time.Duration(r.IntN(100)) * time.Millisecond
	}
	q.Distrusted = []Programs{"", "", Unpackers, Strangers}[r.IntN(4)]
	q.Refusal = []host.Code{0, 225, 1260, 4551}[r.IntN(4)]
	return q
}

// heldLocked says how a change of a name fails while a scanner holds the file.
func (b *boot) heldLocked(op, name string) error {
	q := b.w.options.Quirks.Files
	if q.Held == 0 || !slices.Contains([]string{"create", "link", "rename", "remove", "truncate"}, op) {
		return nil
	}
	until, seen := b.w.held[name]
	if !seen {
		until = time.Now().Add(q.Held)
		b.w.held[name] = until
	}
	if time.Now().Before(until) {
		return fmt.Errorf("%s %s: %w", op, name, q.HeldCode)
	}
	return nil
}

// distrusts tells whether security software lets a program run that came to the host.
func (q FileQuirks) distrusts(local string) bool {
	switch q.Distrusted {
	case Strangers:
		return strings.HasSuffix(local, ".exe")
	case Unpackers:
		f, err := os.Open(local)
		if err != nil {
			return false
		}
		defer f.Close()
		size, err := f.Seek(0, io.SeekEnd)
		if err != nil {
			return false
		}
		_, _, err = selfextract.Find(f, size)
		return err == nil
	}
	return false
}

// refusalText is the part of Windows' text of an error by which people know it.
func refusalText(code host.Code) string {
	return map[host.Code]string{225: "contains a virus", 1260: "blocked by group policy", 4551: "policy has blocked this file"}[code]
}

// arrived is what security software does with a file that came by SFTP.
func (q FileQuirks) arrived(local string) {
	if q.Refusal == 0 && q.distrusts(local) {
		_ = os.Remove(local) // if it is gone already, that is the same
	}
}
