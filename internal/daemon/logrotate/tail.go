package logrotate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/windows-machine-config/wmco/internal/host"
	"github.com/windows-machine-config/wmco/internal/mask"
)

// TailBytes is how much of a log the result of a join tells.
const TailBytes = 2 << 10

// tailReads is how much of a log is looked at for its last lines.
const tailReads = 64 << 10

// Tail is the end of a log for people: its last whole lines, as many as fit into so many bytes. Lines of levels debug and trace are left
// out: everybody who may read Nodes sees what is told of a log, and containerd logs the environment of containers in such lines. In the others, what looks
// like a secret is masked.
func Tail(d host.Disk, name string, limit int64) string {
	if name == "" {
		return "(it declares no log)"
	}
	text, err := tailOf(d, name, limit)
	if errors.Is(err, fs.ErrNotExist) {
		return "(there is no " + name + ")"
	}
	if err != nil {
		return fmt.Sprintf("(reading %s: %v)", name, err)
	}
	return text
}

func tailOf(d host.Disk, name string, limit int64) (string, error) {
	text, err := ReadEnd(d, name, tailReads)
	if err != nil {
		return "", err
	}
	return lastLines(mask.New().Text(strings.ToValidUTF8(text, "")), int(limit)), nil
}

// ReadEnd reads the last lines of a file, at most so many bytes. Of a longer file, the first line is left out, which is not whole: it does not
// tell its level.
func ReadEnd(d host.Disk, name string, limit int64) (string, error) {
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

// lastLines are the last lines of a text that fit into so many bytes; of the very last, at least its end.
func lastLines(text string, limit int) string {
	var lines []string
	for line := range strings.Lines(text) {
		if !isDetail(line) {
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

// isDetail tells a line of a level below info, as the library logrus, which containerd uses, and log/slog write it.
func isDetail(line string) bool {
	for _, form := range []string{"level=debug ", "level=trace ", `"level":"debug"`, `"level":"trace"`, `"level":"DEBUG"`} {
		if strings.Contains(line, form) {
			return true
		}
	}
	return false
}
