package logs

import (
	"strconv"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/cli/nodefiles"
)

// defaultLogs returns the logs of a node that are shown by default.
func defaultLogs() []string { return []string{"wicd", "kubelet", "containerd", "kube-proxy", "System"} }

// specialNames maps lower-case names to files whose names differ.
func specialNames() map[string]string {
	return map[string]string{
		"wicd": "wicd/wicd.log", "windows-instance-config-daemon": "wicd/wicd.log", "update": "wicd/update.log",
		"hybrid-overlay": "hybrid-overlay/hybrid-overlay.log", "hybrid-overlay-node": "hybrid-overlay/hybrid-overlay.log",
		"exporter": "windows_exporter/windows_exporter.log",
		"system":   "eventlog/System.log", "application": "eventlog/Application.log",
		"hns": "eventlog/Host-Network-Service-Admin.log", "hcs": "eventlog/Hyper-V-Compute-Admin.log", "dns": "eventlog/DNS-Client-Operational.log",
		"ssh": "eventlog/OpenSSH-Operational.log",
	}
}

// FileOf returns the file of a log, below C:\var\log. name is one of the names above, a service, or a path.
func FileOf(name string) (string, error) {
	file := name
	switch path := specialNames()[strings.ToLower(name)]; {
	case path != "":
		file = path
	case !strings.Contains(name, "/"):
		file = name + "/" + name + ".log"
	}
	return file, nodefiles.CheckFile(file)
}

type stamps struct {
	// now and zone complete klog's lines, which have neither year nor time zone: the kubelet writes in the time zone of its host.
	now  time.Time
	zone time.Duration
}

// of returns the time of a line. ok is false if it has none and belongs to the preceding line.
func (s stamps) of(line string) (at time.Time, ok bool) {
	if len(line) > 300 {
		line = line[:300]
	}
	if at, ok := s.klog(line); ok {
		return at, true
	}
	for _, begin := range []string{`time="`, `"time":"`, `time=`} {
		if _, rest, found := strings.Cut(line, begin); found {
			text, _, _ := strings.Cut(rest, `"`)
			text, _, _ = strings.Cut(text, " ")
			if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
				return at, true
			}
		}
	}
	text, _, _ := strings.Cut(line, " ")
	at, err := time.Parse(time.RFC3339Nano, text)
	return at, err == nil
}

// klog parses "I1123 16:45:20.123456".
func (s stamps) klog(line string) (time.Time, bool) {
	if len(line) < 21 || !strings.ContainsRune("IWEF", rune(line[0])) {
		return time.Time{}, false
	}
	at, err := time.Parse("0102 15:04:05.000000", line[1:21])
	if err != nil {
		return time.Time{}, false
	}
	at = time.Date(s.now.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), at.Second(), at.Nanosecond(), time.UTC).Add(-s.zone)
	if at.After(s.now.Add(48 * time.Hour)) { // the line is from last year
		at = at.AddDate(-1, 0, 0)
	}
	return at, true
}

// zoneOf returns the UTC offset of a host's lines. It assumes that the file was modified when its last line was written.
func zoneOf(last string, modified time.Time) time.Duration {
	if modified.IsZero() {
		return 0
	}
	at, ok := stamps{now: modified}.klog(last)
	if !ok {
		return 0
	}
	const step = 15 * time.Minute // granularity of time zones
	ahead := at.Sub(modified).Round(step)
	if ahead > 14*time.Hour || ahead < -12*time.Hour {
		return 0
	}
	return ahead
}

// printable replaces terminal control characters. Unlike truncate.Printable it keeps the whole line and marks invalid UTF-8: programs write
// messages in the code page of their Windows.
func printable(line string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' {
			return ' '
		}
		if !strconv.IsPrint(r) {
			return '?'
		}
		return r
	}, line)
}
