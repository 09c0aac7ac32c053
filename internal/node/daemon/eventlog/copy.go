package eventlog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/daemon/logrotate"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// Folder holds the copies. The kubelet serves them as /logs/eventlog/.
const Folder = desired.Logs + `\eventlog`

// Limits of the copies. A channel has at most three files of maxSize: the current one and two rotated ones.
const (
	every          = 15 * time.Second // Windows stores the events meanwhile
	absentInterval = 10 * time.Minute // for channels that do not exist
	timeout        = time.Minute
	maxRead        = 2000 // events of a channel per read
	maxSize        = 4 << 20
	maxAside       = 2
)

// Channel is one event log.
type Channel struct {
	// Name is the name in Windows, File the name of the copy in Folder.
	Name, File string
}

// Channels returns the event logs that explain why a node does not work. The System log has the service control manager (7031, 7034, 7036, 7045),
// TCP/IP, DHCP, the DNS client, disks and restarts; the Application log has crashes of programs.
func Channels() []Channel {
	return []Channel{
		{"System", "System.log"},
		{"Application", "Application.log"},
		{"Microsoft-Windows-Hyper-V-Compute-Admin", "Hyper-V-Compute-Admin.log"},
		{"Microsoft-Windows-Hyper-V-Compute-Operational", "Hyper-V-Compute-Operational.log"},
		{"Microsoft-Windows-Host-Network-Service-Admin", "Host-Network-Service-Admin.log"},
		{"Microsoft-Windows-Host-Network-Service-Operational", "Host-Network-Service-Operational.log"},
		{"Microsoft-Windows-DNS-Client/Operational", "DNS-Client-Operational.log"},
		{"OpenSSH/Operational", "OpenSSH-Operational.log"},
	}
}

// Copier copies events until its session ends.
type Copier struct {
	state.Session

	channels []*channel
}

// channel is the copier's state for one channel.
type channel struct {
	Channel
	// last is the last record that was copied; known is false until the copy was read.
	last  uint64
	known bool
	// begin is written before the next line: a line break if a power failure left an incomplete line.
	begin string
	// again is the time of the next attempt.
	again time.Time
	// failed is the last error that was logged.
	failed string
}

// Run copies events until ctx is done. It stops if this Windows does not allow reading events.
func (c *Copier) Run(ctx context.Context) {
	for _, ch := range Channels() {
		c.channels = append(c.channels, &channel{Channel: ch})
	}
	for ctx.Err() == nil {
		for _, ch := range c.channels {
			if time.Now().Before(ch.again) {
				continue
			}
			err := c.copyEvents(ctx, ch)
			switch {
			case errors.Is(err, errors.ErrUnsupported):
				c.Log.Warn("Copying event logs is not supported by this version of Windows", "error", err.Error())
				return
			case errors.Is(err, hostapi.ErrNotFound):
				ch.again = time.Now().Add(absentInterval) // the Windows feature is not enabled
			case ctx.Err() == nil:
				c.report(ch, err)
			}
		}
		_ = backoff.Sleep(ctx, every)
	}
}

// report logs an error if it differs from the last one.
func (c *Copier) report(ch *channel, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != ch.failed {
		c.Log.Warn("Copying an event log failed", "channel", ch.Name, "error", text)
	}
	ch.failed = text
}

func (c *Copier) copyEvents(ctx context.Context, ch *channel) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	file := Folder + `\` + ch.File
	if !ch.known {
		last, begin, err := lastRecord(c.Host.Disk, file)
		if err != nil {
			return err
		}
		ch.last, ch.begin, ch.known = last, begin, true
	}
	events, err := c.Host.EventLogs.Read(ctx, ch.Name, ch.last, maxRead)
	if err != nil || len(events) == 0 {
		return err
	}
	if _, _, err := state.ClaimFolder(c.Host, Folder, hostapi.Private); err != nil {
		return err
	}
	if err := appendTo(c.Host.Disk, file, ch.begin+linesOf(ch.Name, ch.last, events)); err != nil {
		return err
	}
	ch.begin = ""
	ch.last = events[len(events)-1].Record
	limits := desired.LogLimits{Size: maxSize, Count: maxAside, Age: c.Wanted.Logs.Age}
	return logrotate.Tidy(c.Host.Disk, desired.Log{Path: file}, limits, time.Now())
}

// appendTo appends lines to a copy, all or none unless the power fails.
func appendTo(d hostapi.Disk, file, lines string) error {
	f, size, err := d.Append(file)
	if err != nil {
		return err
	}
	n, err := f.WriteString(lines)
	if err != nil && n > 0 {
		err = errors.Join(err, f.Truncate(size))
	}
	return errors.Join(err, f.Close())
}

// linesOf formats events for readers and log collectors: time, level, channel with record, provider, ID, message. It counts the records missing
// between two events, because there were too many or they were unreadable.
func linesOf(name string, last uint64, events []hostapi.Event) string {
	var b strings.Builder
	for _, e := range events {
		if last > 0 && e.Record > last+1 {
			fmt.Fprintf(&b, "%s %s %s[%d] wicd 0: %d events before this one were not copied\n", e.Time.Format(timeFormat), hostapi.EventWarning, name,
				e.Record-1, e.Record-last-1)
		}
		last = e.Record
		fmt.Fprintf(&b, "%s %s %s[%d] %s %d: %s\n", e.Time.Format(timeFormat), e.Level, name, e.Record, e.Provider, e.ID, oneLine(e.Message))
	}
	return b.String()
}

// timeFormat is RFC 3339 with milliseconds.
const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// oneLine prevents a program's message from looking like another event.
func oneLine(message string) string { return strings.Join(strings.Fields(message), " ") }

// tailBytes is how much of a copy is searched for its last record. It is more than the longest line.
const tailBytes = 64 << 10

// lastRecord returns the last record in a copy, and what must be written before the next one. The record is 0 when there is none, so that copying
// begins with the oldest event that Windows still has.
func lastRecord(d hostapi.Disk, file string) (last uint64, begin string, err error) {
	text, err := logrotate.ReadEnd(d, file, tailBytes)
	if err != nil {
		return 0, "", state.IgnoreAbsent(err)
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		begin = "\n"
	}
	for line := range strings.Lines(text) {
		if record, ok := recordOf(line); ok {
			last = record
		}
	}
	return last, begin, nil
}

// recordOf parses the record of a complete line.
func recordOf(line string) (record uint64, ok bool) {
	if !strings.HasSuffix(line, "\n") {
		return 0, false // left by a power failure
	}
	words := strings.SplitN(line, " ", 4)
	if len(words) < 4 {
		return 0, false
	}
	if _, err := time.Parse(timeFormat, words[0]); err != nil {
		return 0, false
	}
	_, rest, found := strings.Cut(words[2], "[")
	if !found {
		return 0, false
	}
	if n, err := fmt.Sscanf(rest, "%d]", &record); n != 1 || err != nil {
		return 0, false
	}
	return record, true
}
