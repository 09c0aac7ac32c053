package sshd

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// readSize is large enough for many SSH packets, because reads are slow on Wine.
	readSize = 1 << 20
	// copySize is the size of one copy of a command's input.
	copySize = 1 << 17
	// outputDelay is how long a process that a command left behind may keep the command's output open.
	outputDelay = 10 * time.Second
	// saveInterval is the maximum age of the byte counts in the file.
	saveInterval = 200 * time.Millisecond
)

// Stats is what clients have done since the host was created, across restarts of the server.
type Stats struct {
	// Connections is the number of TCP connections accepted, whether they logged in or not.
	Connections int `json:"connections"`
	// ExecChannels is the number of channels that ran a command.
	ExecChannels int `json:"execChannels"`
	// SFTPChannels is the number of channels that opened the sftp subsystem.
	SFTPChannels int `json:"sftpChannels"`
	// FilesOpenedForWriting counts SFTP open requests with the write flag.
	FilesOpenedForWriting int `json:"filesOpenedForWriting"`
	// BytesReceived and BytesSent are the bytes on its TCP connections, including SSH's overhead.
	BytesReceived int64 `json:"bytesReceived"`
	BytesSent     int64 `json:"bytesSent"`
	// Commands are the executed command lines, in order.
	Commands []string `json:"commands"`
}

// Sub returns the difference to earlier Stats.
func (s Stats) Sub(earlier Stats) Stats {
	s.Connections -= earlier.Connections
	s.ExecChannels -= earlier.ExecChannels
	s.SFTPChannels -= earlier.SFTPChannels
	s.FilesOpenedForWriting -= earlier.FilesOpenedForWriting
	s.BytesReceived -= earlier.BytesReceived
	s.BytesSent -= earlier.BytesSent
	s.Commands = s.Commands[min(len(earlier.Commands), len(s.Commands)):]
	return s
}

// ReadStats reads the file of a server's counters; a missing file means no activity.
func ReadStats(path string) (Stats, error) {
	var s Stats
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("reading the counters: %w", err)
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return s, fmt.Errorf("decoding the counters: %w", err)
	}
	return s, nil
}

// Counters stores Stats in a file, which is replaced atomically at each change, and at most every 200 ms for bytes.
type Counters struct {
	path           string
	received, sent atomic.Int64

	mu    sync.Mutex // guards stats and the file
	stats Stats
	saved [2]int64
}

// OpenCounters continues with the counts in the file.
func OpenCounters(path string) (*Counters, error) {
	stats, err := ReadStats(path)
	if err != nil {
		return nil, err
	}
	c := &Counters{path: path, stats: stats}
	c.received.Store(stats.BytesReceived)
	c.sent.Store(stats.BytesSent)
	return c, nil
}

// KeepSaving saves the byte counts until stop is closed.
func (c *Counters) KeepSaving(stop <-chan struct{}) {
	tick := time.NewTicker(saveInterval)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			c.save()
			return
		case <-tick.C:
			c.save()
		}
	}
}

// Stats returns the counts up to now.
func (c *Counters) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current()
}

func (c *Counters) current() Stats {
	s := c.stats
	s.Commands = slices.Clone(s.Commands)
	s.BytesReceived, s.BytesSent = c.received.Load(), c.sent.Load()
	return s
}

// update changes a count and saves the file.
func (c *Counters) update(change func(*Stats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.stats)
	c.write()
}

// save writes the file if bytes were counted since.
func (c *Counters) save() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.saved != [2]int64{c.received.Load(), c.sent.Load()} {
		c.write()
	}
}

// write replaces the file. It ignores errors, so that counting does not affect connections.
func (c *Counters) write() {
	s := c.current()
	raw, err := json.Marshal(s)
	if err != nil {
		return
	}
	beside := c.path + ".new"
	if os.WriteFile(beside, raw, 0o644) == nil && os.Rename(beside, c.path) == nil {
		c.saved = [2]int64{s.BytesReceived, s.BytesSent}
	}
}

// A countingConn counts bytes and reads ahead.
type countingConn struct {
	net.Conn
	reader   *bufio.Reader
	counters *Counters
}

func newCountingConn(conn net.Conn, counters *Counters) *countingConn {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(readSize)
		_ = tcp.SetWriteBuffer(readSize)
	}
	c := &countingConn{Conn: conn, counters: counters}
	c.reader = bufio.NewReaderSize(readerFunc(c.receive), readSize)
	return c
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func (c *countingConn) receive(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.counters.received.Add(int64(n))
	return n, err
}

func (c *countingConn) Read(p []byte) (int, error) { return c.reader.Read(p) }

func (c *countingConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.counters.sent.Add(int64(n))
	return n, err
}

// An openCounter watches the packets that an SFTP client sends and counts requests to open a file for writing.
type openCounter struct {
	io.ReadWriteCloser
	counters *Counters
	packet   []byte // the beginning of the current packet, as far as needed
	left     uint32 // bytes of the current packet still to come
}

// Of the SFTP protocol, version 3: https://datatracker.ietf.org/doc/html/draft-ietf-secsh-filexfer-02#section-6.3
const (
	packetHeader   = 4 + 1 // length, type
	typeOpen       = 3
	flagWrite      = 2
	maxOpenPackets = 1 << 16
)

func (o *openCounter) Read(p []byte) (int, error) {
	n, err := o.ReadWriteCloser.Read(p)
	o.watch(p[:n])
	return n, err
}

func (o *openCounter) watch(p []byte) {
	for len(p) > 0 {
		if len(o.packet) < packetHeader {
			n := min(len(p), packetHeader-len(o.packet))
			o.packet, p = append(o.packet, p[:n]...), p[n:]
			if len(o.packet) < packetHeader {
				return
			}
			o.left = max(binary.BigEndian.Uint32(o.packet), 1) - 1
		}
		n := int(min(uint64(len(p)), uint64(o.left)))
		if o.packet[4] == typeOpen && len(o.packet)+n <= maxOpenPackets {
			o.packet = append(o.packet, p[:n]...)
		}
		o.left -= uint32(n)
		p = p[n:]
		if o.left == 0 {
			if opensForWriting(o.packet) {
				o.counters.update(func(c *Stats) { c.FilesOpenedForWriting++ })
			}
			o.packet = o.packet[:0]
		}
	}
}

// opensForWriting reads an open request: header, request id, path, flags.
func opensForWriting(packet []byte) bool {
	const path = packetHeader + 4
	if packet[4] != typeOpen || len(packet) < path+4 {
		return false
	}
	flags := uint64(path) + 4 + uint64(binary.BigEndian.Uint32(packet[path:]))
	return uint64(len(packet)) >= flags+4 && binary.BigEndian.Uint32(packet[flags:])&flagWrite != 0
}

// Programs returns the first word of each command, in lower case and without its folder.
func (s Stats) Programs() []string {
	var names []string
	for _, line := range s.Commands {
		word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		word = strings.Trim(word, `"`)
		names = append(names, strings.ToLower(word[strings.LastIndexAny(word, `\/`)+1:]))
	}
	return names
}
