package logrotate

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// openLog creates the folder of WICD's own log and opens it for appending. Like other services' logs, it is truncated while it is open; the next
// line is then written at its beginning.
func openLog(d hostapi.Disk, name string) (*os.File, error) {
	if _, err := d.MakeFolder(hostapi.Parent(name)); err != nil {
		return nil, err
	}
	f, _, err := d.Append(name)
	return f, err
}

// File is the service's log. It works whether the file can be opened or not: while it cannot, because the disk is full or a folder has its name,
// lines are lost.
type File struct {
	disk hostapi.Disk
	name string
	// alias is a second name of the file; empty if it has none.
	alias string
	mu    sync.Mutex
	file  *os.File
}

// NewFile returns a log that is opened at the first write.
func NewFile(d hostapi.Disk, name string) *File { return &File{disk: d, name: name} }

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
		_ = l.disk.LinkOpen(l.name, l.alias) // the log works without it
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

// Levels of WICD's log files, as must-gather names them. INFO is a link to the log itself; the other two have only lines of that level and above.
const (
	levelInfo    = "INFO"
	levelWarning = "WARNING"
	levelError   = "ERROR"
)

// Logger writes WICD's log as lines of JSON.
type Logger struct {
	// Handler writes the lines.
	Handler slog.Handler
	files   []*File
}

// OpenLogger returns a log with a name. desired.WICDLog also gets the file names that must-gather collects.
func OpenLogger(d hostapi.Disk, name string) *Logger {
	log := NewFile(d, name)
	if name != desired.WICDLog {
		return &Logger{Handler: slog.NewJSONHandler(log, nil), files: []*File{log}}
	}
	log.alias = desired.WICDLogByLevel + levelInfo
	warnings, failures := NewFile(d, desired.WICDLogByLevel+levelWarning), NewFile(d, desired.WICDLogByLevel+levelError)
	for _, f := range []*File{warnings, failures} { // must-gather expects the files even if nothing is logged
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

// logsOf returns the files to keep within limits for a service's log.
func logsOf(log desired.Log) []desired.Log {
	if log.Path != desired.WICDLog {
		return []desired.Log{log}
	}
	return []desired.Log{log, {Path: desired.WICDLogByLevel + levelWarning}, {Path: desired.WICDLogByLevel + levelError}}
}
