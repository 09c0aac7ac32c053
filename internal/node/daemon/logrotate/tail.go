package logrotate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/mask"
)

// TailBytes limits the log excerpt in the result of a join.
const TailBytes = 2 << 10

// tailReads is how much of a log is read to find its last lines.
const tailReads = 64 << 10

// Tail returns the last whole lines of a log that fit into limit bytes, for messages. It omits lines of levels debug and trace, because all readers
// of Nodes can see the excerpt, and containerd logs the environment of containers in such lines. In the others, anything that looks like a secret
// is masked.
func Tail(d hostapi.Disk, name string, limit int64) string {
	if name == "" {
		return "(it declares no log)"
	}
	text, err := ReadEnd(d, name, tailReads)
	if errors.Is(err, fs.ErrNotExist) {
		return "(" + name + " does not exist)"
	}
	if err != nil {
		return fmt.Sprintf("(reading %s: %v)", name, err)
	}
	return lastLines(mask.New().Text(strings.ToValidUTF8(text, "")), int(limit))
}

// ReadEnd reads the last lines of a file, at most limit bytes. If the file is longer, the first line is omitted, because it is incomplete and may
// lack its level.
func ReadEnd(d hostapi.Disk, name string, limit int64) (string, error) {
	f, err := d.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	start := max(info.Size()-limit, 0)
	b := make([]byte, info.Size()-start)
	n, err := f.ReadAt(b, start)
	if err != nil && !errors.Is(err, io.EOF) { // it may have been emptied meanwhile
		return "", err
	}
	text := string(b[:n])
	if start > 0 {
		_, text, _ = strings.Cut(text, "\n")
	}
	return text, nil
}

// lastLines returns the last lines of a text that fit into limit bytes, but at least the end of the last line.
func lastLines(text string, limit int) string {
	var lines []string
	for line := range strings.Lines(text) {
		if !isDebug(line) {
			lines = append(lines, line)
		}
	}
	first, size := len(lines), 0
	for first > 0 && size+len(lines[first-1]) <= limit {
		first--
		size += len(lines[first])
	}
	if last := len(lines) - 1; first > last && last >= 0 {
		return strings.TrimSpace(strings.ToValidUTF8(lines[last][len(lines[last])-limit:], ""))
	}
	return strings.TrimSpace(strings.Join(lines[first:], ""))
}

// isDebug reports whether a line has a level below info, in the formats of logrus, which containerd uses, and log/slog.
func isDebug(line string) bool {
	for _, form := range []string{"level=debug ", "level=trace ", `"level":"debug"`, `"level":"trace"`, `"level":"DEBUG"`} {
		if strings.Contains(line, form) {
			return true
		}
	}
	return false
}
