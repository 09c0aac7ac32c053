// Package hcs simulates the parts of Windows' Host Compute Service that do not need Windows: layers of images as folders, the
// documents of the API, and the compute systems of a host as files that all of its processes share. Package hostcompute builds
// vmcompute.dll from it, where a compute system is a job of ordinary processes.
package hcs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
)

// A Result is an HRESULT other than success.
type Result uint32

// Results that callers distinguish (internal/hcs/errors.go of hcsshim).
const (
	NotFound       Result = 0xC037010E // no such compute system
	AlreadyExists  Result = 0xC037010F
	AlreadyStopped Result = 0xC0370110
	InvalidJSON    Result = 0xC037010D
	ProcessStopped Result = 0x8037011F
	InvalidHandle  Result = 0x80070006
	FileNotFound   Result = 0x80070002
	LogonFailure   Result = 0x8007052E // "The user name or password is incorrect."
	NoElement      Result = 0x80070490
	Fail           Result = 0x80004005
	NotImplemented Result = 0x80004001
)

func (r Result) Error() string { return fmt.Sprintf("result %08x", uint32(r)) }

// ResultOf returns the HRESULT of an error; 0 for nil.
func ResultOf(err error) Result {
	var r Result
	switch {
	case err == nil:
		return 0
	case errors.As(err, &r):
		return r
	case errors.Is(err, fs.ErrNotExist):
		return FileNotFound
	}
	return Fail
}

// System is the shared information about a compute system.
type System struct {
	// ID, Owner and Host are from the document that created the system. Host is the host name that its processes see.
	ID, Owner, Host string
	// Root is the volume with its files.
	Root string
	// Mounts are folders and files of the host that it sees on its drive C:.
	Mounts []guestapi.Mount `json:",omitempty"`
	// Namespace is its namespace of the network service.
	Namespace string `json:",omitempty"`
	guestapi.Limits
	// EndsWithHandle makes it end with its last handle.
	EndsWithHandle bool
	Created        time.Time
	// Started is true after its start.
	Started bool
}

// ParseDocument parses the document that creates a compute system, of schema 2.
func ParseDocument(id, document string) (System, error) {
	var d struct {
		Owner                             string
		ShouldTerminateOnLastHandleClosed bool
		VirtualMachine                    *struct{}
		Container                         struct {
			Memory            struct{ SizeInMB uint64 }
			Processor         struct{ Maximum uint32 }
			Storage           struct{ Path string }
			GuestOs           struct{ HostName string }
			MappedDirectories []guestapi.Mount
			Networking        struct{ Namespace string }
		}
	}
	if err := json.Unmarshal([]byte(document), &d); err != nil {
		return System{}, fmt.Errorf("%w: %w", InvalidJSON, err)
	}
	if d.VirtualMachine != nil {
		return System{}, fmt.Errorf("creating virtual machine %s: %w", id, NotImplemented)
	}
	s := System{ID: id, Owner: d.Owner, Host: d.Container.GuestOs.HostName, Root: d.Container.Storage.Path, Mounts: d.Container.MappedDirectories,
		Namespace: d.Container.Networking.Namespace, Limits: guestapi.Limits{MemoryInMB: d.Container.Memory.SizeInMB, ProcessorMax: d.Container.Processor.Maximum},
		EndsWithHandle: d.ShouldTerminateOnLastHandleClosed}
	if s.Root == "" {
		return System{}, fmt.Errorf("creating compute system %s: its document has no storage: %w", id, InvalidJSON)
	}
	return s, nil
}

// Systems is the folder with the information about all compute systems. A system without a job no longer exists, whatever
// is in the folder.
type Systems struct {
	Dir string
	// Alive reports whether the job of a compute system exists.
	Alive func(id string) bool
}

// Put writes a compute system.
func (all Systems) Put(s System) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encoding compute system %s: %w", s.ID, err)
	}
	if err := os.MkdirAll(all.Dir, 0o755); err != nil {
		return fmt.Errorf("creating the folder of compute systems: %w", err)
	}
	path := all.path(s.ID)
	if err := os.WriteFile(path+".new", raw, 0o644); err != nil {
		return fmt.Errorf("writing compute system %s: %w", s.ID, err)
	}
	return os.Rename(path+".new", path)
}

// Get returns a compute system, or NotFound.
func (all Systems) Get(id string) (System, error) {
	var s System
	raw, err := os.ReadFile(all.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return s, fmt.Errorf("compute system %s: %w", id, NotFound)
	}
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	if err != nil {
		return s, fmt.Errorf("reading compute system %s: %w", id, err)
	}
	if !all.Alive(id) {
		_ = all.Remove(id)
		return s, fmt.Errorf("compute system %s ended: %w", id, NotFound)
	}
	return s, nil
}

// Remove removes a compute system.
func (all Systems) Remove(id string) error {
	err := os.Remove(all.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// List returns the compute systems of the types in a query, sorted by ID like Windows' list.
func (all Systems) List(query string) (string, error) {
	var q struct{ Types []string }
	if query != "" {
		if err := json.Unmarshal([]byte(query), &q); err != nil {
			return "", fmt.Errorf("reading the query: %w: %w", InvalidJSON, err)
		}
	}
	paths, err := filepath.Glob(all.path("*"))
	if err != nil {
		return "", err
	}
	list := []map[string]any{}
	for _, path := range paths {
		s, err := all.Get(strings.TrimSuffix(filepath.Base(path), ".json"))
		if errors.Is(err, NotFound) {
			continue
		}
		if err != nil {
			return "", err
		}
		if len(q.Types) == 0 || slices.Contains(q.Types, container) {
			list = append(list, s.properties())
		}
	}
	raw, err := json.Marshal(list)
	return string(raw), err
}

func (all Systems) path(id string) string { return filepath.Join(all.Dir, id+".json") }
