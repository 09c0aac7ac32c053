package logrotate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/windows-machine-config/wmco/internal/host"
)

// TailBytes is how much of a log the result of a join tells.
const TailBytes = 2 << 10

// Tail is the end of a log for people: its last whole lines, as many as fit into so many bytes.
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
	b = b[:n]
	if _, lines, cut := bytes.Cut(b, []byte("\n")); cut && start > 0 && len(lines) > 0 {
		b = lines // the first is not whole
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(b), "")), nil
}
