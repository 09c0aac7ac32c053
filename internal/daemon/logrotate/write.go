package logrotate

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"

	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/host"
)

// openLog makes the folder of WICD's own log and opens it for appending. Like those of other services it is emptied while
// it is open; what is appended then comes at its beginning.
func openLog(d host.Disk, name string) (*os.File, error) {
	if _, err := d.MakeFolder(host.Parent(name)); err != nil {
		return nil, err
	}
	f, _, err := d.Append(name)
	return f, err
}

// File is the log of the service, which works whether there is one or not: while it cannot be opened, because the disk
// is full or somebody has made a folder of it, what is said is lost.
type File struct {
	disk host.Disk
	name string
	// alias is a second name of the file; empty if it has none.
	alias string
	mu    sync.Mutex
	file  *os.File
}

// NewFile is a log that is opened with the first write.
func NewFile(d host.Disk, name string) *File { return &File{disk: d, name: name} }

// Write implements io.Writer.
func (l *File) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.open(); err != nil {
		return 0, err
	}
	return l.file.Write(p)
}

// open opens the file unless it is open. The caller holds the lock.
func (l *File) open() error {
	if l.file != nil {
		return nil
	}
	f, err := openLog(l.disk, l.name)
	if err != nil {
		return err
	}
	l.file = f
	if l.alias != "" {
		_ = l.disk.LinkOpen(l.name, l.alias) // without it, the log is there all the same
	}
	return nil
}

// Close implements io.Closer.
func (l *File) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

// Levels of WICD's log, as must-gather names them. The file INFO is the log itself under another name, the other two have only lines of
// that level and worse.
const (
	levelInfo    = "INFO"
	levelWarning = "WARNING"
	levelError   = "ERROR"
)

// Logger is where WICD writes lines of JSON.
type Logger struct {
	// Handler writes the lines.
	Handler slog.Handler
	files   []*File
}

// OpenLogger makes a log of a name. desired.WICDLog gets, besides, the names that must-gather takes.
func OpenLogger(d host.Disk, name string) *Logger {
	log := NewFile(d, name)
	if name != desired.WICDLog {
		return &Logger{Handler: slog.NewJSONHandler(log, nil), files: []*File{log}}
	}
	log.alias = desired.WICDLogByLevel + levelInfo
	warnings, failures := NewFile(d, desired.WICDLogByLevel+levelWarning), NewFile(d, desired.WICDLogByLevel+levelError)
	for _, f := range []*File{warnings, failures} { // must-gather misses them if nothing ever goes wrong
		_, _ = f.Write(nil)
	}
	at := func(w io.Writer, level slog.Level) slog.Handler {
		return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})
	}
	return &Logger{
		Handler: slog.NewMultiHandler(at(log, slog.LevelInfo), at(warnings, slog.LevelWarn), at(failures, slog.LevelError)),
		files:   []*File{log, warnings, failures},
	}
}

// Close closes the files.
func (l *Logger) Close() error {
	var err error
	for _, f := range l.files {
		err = errors.Join(err, f.Close())
	}
	return err
}

// logsOf are the files to keep within limits for a service's log.
func logsOf(log desired.Log) []desired.Log {
	if log.Path != desired.WICDLog {
		return []desired.Log{log}
	}
	return []desired.Log{log, {Path: desired.WICDLogByLevel + levelWarning}, {Path: desired.WICDLogByLevel + levelError}}
}
