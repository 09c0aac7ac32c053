package configure

import (
	"strings"

	"github.com/windows-machine-config/wmco/internal/daemon/logrotate"
	"github.com/windows-machine-config/wmco/internal/host"
	"github.com/windows-machine-config/wmco/internal/mask"
	"github.com/windows-machine-config/wmco/internal/shorten"
)

// dismLog is where DISM writes, in English on each Windows.
const dismLog = `C:\Windows\Logs\DISM\dism.log`

const (
	// dismReads is how much of the log is looked at, dismLines how many errors are told, each with so many bytes.
	dismReads     = 64 << 10
	dismLines     = 3
	dismLineBytes = 240
)

// dismErrors are the last errors of DISM's log; empty where it has none, or cannot be read.
func dismErrors(d host.Disk) string {
	text, err := logrotate.ReadEnd(d, dismLog, dismReads)
	if err != nil {
		return ""
	}
	lines := errorsOf(text)
	if len(lines) == 0 {
		return ""
	}
	return dismLog + " says: " + strings.Join(lines, " | ")
}

// errorsOf are the last lines of level Error: "2026-11-25 10:00:00, Error   DISM   ...". What looks like a secret is masked.
func errorsOf(text string) []string {
	masked := mask.New().Text(strings.ToValidUTF8(text, ""))
	var lines []string
	for line := range strings.Lines(masked) {
		_, level, found := strings.Cut(line, ", ")
		if found && strings.HasPrefix(level, "Error") {
			lines = append(lines, shorten.Text(strings.Join(strings.Fields(line), " "), dismLineBytes))
		}
	}
	return lines[max(len(lines)-dismLines, 0):]
}
