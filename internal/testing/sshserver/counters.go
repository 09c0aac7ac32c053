package sshserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"
)

// saveInterval is the maximum age of the byte counts in the file.
const saveInterval = 200 * time.Millisecond

// Counters are the counts since New, or since the file of counters was created.
type Counters struct {
	// Connections counts TCP connections, including those that never logged in.
	Connections int
	// ExecChannels and SFTPChannels count accepted requests of either kind.
	ExecChannels, SFTPChannels int
	// FilesWritten counts files opened for writing by file transfers.
	FilesWritten int
	// BytesIn and BytesOut count the bytes of TCP connections from and to clients, including the overhead of SSH.
	BytesIn, BytesOut int64
	// Commands are the lines of the accepted commands, in order.
	Commands []string
}

// Sub returns the difference to earlier Counters.
func (c Counters) Sub(earlier Counters) Counters {
	c.Connections -= earlier.Connections
	c.ExecChannels -= earlier.ExecChannels
	c.SFTPChannels -= earlier.SFTPChannels
	c.FilesWritten -= earlier.FilesWritten
	c.BytesIn -= earlier.BytesIn
	c.BytesOut -= earlier.BytesOut
	c.Commands = c.Commands[min(len(earlier.Commands), len(c.Commands)):]
	return c
}

// ReadCounters reads a server's CountersFile; a missing file means no activity.
func ReadCounters(path string) (c Counters, err error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil {
		return c, fmt.Errorf("reading the counters: %w", err)
	}
	return c, nil
}

// Counters returns the current counts.
func (s *Server) Counters() Counters {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.currentLocked()
}

func (s *Server) currentLocked() Counters {
	c := s.counts
	c.Commands = slices.Clone(c.Commands)
	c.BytesIn, c.BytesOut = s.in.Load(), s.out.Load()
	return c
}

// count changes the counters.
func (s *Server) count(change func(*Counters)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.counts)
	s.saveLocked()
}

// keepSaving saves the byte counts until ctx ends.
func (s *Server) keepSaving(ctx context.Context) {
	tick := time.NewTicker(saveInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		if s.saved != [2]int64{s.in.Load(), s.out.Load()} {
			s.saveLocked()
		}
		s.mu.Unlock()
	}
}

// saveLocked replaces the file. It ignores errors, so that counting does not affect connections.
func (s *Server) saveLocked() {
	path := s.options.CountersFile
	if path == "" {
		return
	}
	c := s.currentLocked()
	raw, err := json.Marshal(c)
	if err != nil {
		return
	}
	beside := path + ".new"
	if os.WriteFile(beside, raw, 0o644) == nil && os.Rename(beside, path) == nil {
		s.saved = [2]int64{c.BytesIn, c.BytesOut}
	}
}
