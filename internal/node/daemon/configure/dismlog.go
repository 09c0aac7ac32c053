package configure

import (
	"strings"

	"github.com/windows-machine-config/wmco/internal/node/daemon/logrotate"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/mask"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// dismLog is the log of DISM. It is in English on every Windows.
const dismLog = `C:\Windows\Logs\DISM\dism.log`

const (
	// dismReads is how many bytes of the log are read, dismLines how many errors are reported, and dismLineBytes the maximum length of each.
	dismReads     = 64 << 10
	dismLines     = 3
	dismLineBytes = 240
)

// dismErrors returns the last errors in DISM's log; empty if it has none or cannot be read.
func dismErrors(d hostapi.Disk) string {
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

// errorsOf returns the last lines of level Error, such as "2026-11-25 10:00:00, Error   DISM   ...". Anything that looks like a secret is masked.
func errorsOf(text string) []string {
	masked := mask.New().Text(strings.ToValidUTF8(text, ""))
	var lines []string
	for line := range strings.Lines(masked) {
		_, level, found := strings.Cut(line, ", ")
		if found && strings.HasPrefix(level, "Error") {
			lines = append(lines, truncate.Text(strings.Join(strings.Fields(line), " "), dismLineBytes))
		}
	}
	return lines[max(len(lines)-dismLines, 0):]
}
