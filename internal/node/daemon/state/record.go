package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// RecordFile is what the last join requested. A join writes it before it changes services and completes it at its end; the service works from it.
// RecordCopy is a copy of the last complete one, because after a power failure a disk may have lost data that it reported as written.
const (
	RecordFile = desired.State + `\node.json`
	RecordCopy = desired.State + `\node.copy.json`
)

// Record is the content of RecordFile. Its token is always empty.
type Record struct {
	wicdapi.JoinRequest
	// Complete is false while the join is in progress, or after it was interrupted.
	Complete bool `json:"complete"`
	// Pulled is true while the service itself applies the record, or was interrupted and has to continue; false in a join.
	Pulled bool `json:"pulled,omitempty"`
	// Leaving is true once the host is leaving its cluster: from then on, nothing is maintained.
	Leaving bool `json:"leaving,omitempty"`
}

// ErrUnreadable is the class of errors that are caused by a record's content.
var ErrUnreadable = errors.New("invalid record")

// Read returns what the last join requested. Before the first join, the error is fs.ErrNotExist.
func Read(d hostapi.Disk) (Record, error) { return readFrom(d, RecordFile) }

func readFrom(d hostapi.Disk, name string) (Record, error) {
	b, err := d.Read(name)
	if err != nil {
		return Record{}, err
	}
	var r Record
	err = json.Unmarshal(b, &r)
	if err == nil && r.Node == "" {
		err = errors.New("field node is empty")
	}
	if err != nil {
		return Record{}, fmt.Errorf("reading %s: %w: %w", name, ErrUnreadable, err)
	}
	return r, nil
}

// Restore replaces an unreadable record by its copy. It fails while a command holds the lock: a join writes a better record.
func Restore(h hostapi.Host) (Record, error) {
	release, err := h.System.Lock(CommandLock)
	if err != nil {
		return Record{}, err
	}
	defer release()
	r, err := Read(h.Disk)
	if !errors.Is(err, ErrUnreadable) {
		return r, err
	}
	r, errCopy := readFrom(h.Disk, RecordCopy)
	if errCopy != nil {
		return Record{}, errors.Join(err, errCopy)
	}
	if _, err := r.Write(h.Disk); err == nil { // otherwise the next start retries
		Note(h.Disk, wicdapi.JournalEntry{Time: time.Now().UTC(), Step: "service", Change: RecordFile + " restored from its copy"})
	}
	return r, nil
}

// ReadFormer returns the record, or an empty one if it does not exist or is unreadable: the join then starts from the beginning.
func ReadFormer(d hostapi.Disk) (Record, error) {
	r, err := Read(d)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrUnreadable) {
		return Record{}, nil
	}
	return r, err
}

// Wanted returns what is requested of this host, with names and secrets filled in, and services in the order in which they start.
func (r Record) Wanted() (desired.Node, error) {
	wanted, err := r.Desired.On(r.Local, r.Secrets)
	if err != nil {
		return desired.Node{}, err
	}
	wanted.Services, err = desired.Order(wanted.Services)
	return wanted, err
}

// Write writes the record, and also the copy if the record is complete or the host is leaving. changed is false if the record was already
// there.
func (r Record) Write(d hostapi.Disk) (changed bool, err error) {
	r.Bootstrap.Token = ""
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return false, err
	}
	changed, err = d.WriteFile(RecordFile, string(b)+"\n")
	if err == nil && (r.Complete || r.Leaving) {
		_, err = d.WriteFile(RecordCopy, string(b)+"\n")
	}
	if err != nil {
		return changed, fmt.Errorf("writing %s: %w", RecordFile, err)
	}
	return changed, nil
}

// ReadLast returns what the last join requested, or an empty record if there was none. An unreadable or missing record is read from its copy.
func ReadLast(d hostapi.Disk) (Record, error) {
	r, err := Read(d)
	if err == nil {
		return r, nil
	}
	if copied, errCopy := readFrom(d, RecordCopy); errCopy == nil {
		return copied, nil
	}
	if errors.Is(err, ErrUnreadable) || errors.Is(err, fs.ErrNotExist) {
		return Record{}, nil
	}
	return Record{}, err
}

// Equal compares records as they are on disk.
func Equal(a, b Record) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// IsCurrent reports whether the record on disk is still this one. An unreadable one counts as current.
func (r Record) IsCurrent(d hostapi.Disk) bool {
	current, err := Read(d)
	return err != nil || reflect.DeepEqual(current, r)
}
