package acceptance

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// Issues is where reports are sent.
const Issues = "https://github.com/windows-machine-config/wmco/issues"

const (
	// lastLines and lastBytes limit the size of each log, and logAge is the maximum age of events.
	lastLines = 2000
	lastBytes = 1 << 20
	logAge    = time.Hour
	// maxLogFiles limits the logs of one folder.
	maxLogFiles = 50
)

// channels returns the event logs whose events of the last hour go into the archive.
func channels() []string {
	return []string{
		"System", "Application", "Setup", "OpenSSH/Operational", "Microsoft-Windows-Host-Network-Service-Admin",
		"Microsoft-Windows-Host-Network-Service-Operational", "Microsoft-Windows-Hyper-V-VmSwitch-Operational",
		"Microsoft-Windows-Hyper-V-Compute-Admin", "Microsoft-Windows-Hyper-V-Compute-Operational",
		"Microsoft-Windows-Windows Defender/Operational", "Microsoft-Windows-CodeIntegrity/Operational",
	}
}

// addLogs adds the ends of logs to a report. For a log that cannot be read, it adds the error.
func (s *session) addLogs(ctx context.Context, r *Report) {
	if r.logs == nil {
		r.logs = map[string]string{}
	}
	for _, file := range []string{`C:\Windows\Logs\DISM\dism.log`, `C:\Windows\Logs\CBS\CBS.log`} {
		s.addLog(r, "windows/"+filepath.Base(s.Host.Disk.Local(file)), file)
	}
	for _, name := range []string{"journal.jsonl", "journal.1.jsonl"} { // the folder also has secrets
		if file := desired.State + `\` + name; s.Host.Disk.Exists(file) {
			s.addLog(r, "wicd/"+name, file)
		}
	}
	for prefix, folder := range map[string]string{"join": joinFolder, "wicd": desired.Logs} {
		s.addFolder(r, prefix, folder)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for _, channel := range channels() {
		name := "events/" + strings.NewReplacer("/", "-", " ", "-").Replace(channel) + ".txt"
		if _, found := r.logs[name]; !found {
			r.logs[name] = s.redact.text(s.events(ctx, channel))
		}
	}
}

// addFolder adds the logs below a folder.
func (s *session) addFolder(r *Report, prefix, folder string) {
	top := s.Host.Disk.Local(folder)
	count := 0
	_ = filepath.WalkDir(top, func(path string, entry os.DirEntry, err error) error { // an absent folder has no logs
		if err != nil || entry.IsDir() || !strings.HasSuffix(entry.Name(), ".log") || count == maxLogFiles {
			return nil
		}
		count++
		if relative, err := filepath.Rel(top, path); err == nil {
			r.logs[prefix+"/"+filepath.ToSlash(relative)] = s.redact.text(endOf(path, lastBytes))
		}
		return nil
	})
}

func (s *session) addLog(r *Report, name, file string) {
	r.logs[name] = s.redact.text(endOf(s.Host.Disk.Local(file), lastBytes))
}

// endOf returns the end of a file, up to a number of bytes and lastLines, or why it cannot be read.
func endOf(name string, most int64) string {
	f, err := os.Open(name)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > most {
		_, _ = f.Seek(-most, io.SeekEnd)
	}
	content, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(string(content), "\n")
	return strings.Join(lines[max(0, len(lines)-lastLines):], "\n")
}

// events returns the events of the last hour in a channel, or why they cannot be read.
func (s *session) events(ctx context.Context, channel string) string {
	events, err := s.Host.EventLogs.Read(ctx, channel, 0, lastLines)
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, e := range events {
		if time.Since(e.Time) <= logAge {
			fmt.Fprintf(&b, "%s %s %s %d: %s\n", e.Time.Format(time.RFC3339), e.Level, e.Provider, e.ID, e.Message)
		}
	}
	return b.String()
}

// JSON returns the report for programs.
func (r Report) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(r, "", "  ")
	return append(text, '\n'), err
}

// Archive returns a zip file with the report in both forms, and the logs.
func (r Report) Archive() ([]byte, error) {
	text, err := r.JSON()
	if err != nil {
		return nil, err
	}
	files := map[string]string{"report.json": string(text), "report.md": r.Summary()}
	maps.Copy(files, r.logs)
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		w, err := z.Create(name)
		if err == nil {
			_, err = io.WriteString(w, files[name])
		}
		if err != nil {
			return nil, err
		}
	}
	err = z.Close()
	return b.Bytes(), err
}
