package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"time"

	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/host"
)

// RecordFile is what the last join asked for. A join writes it before it touches services and completes it at its
// end; the service lives by it. RecordCopy is what the last completed one says: a disk may lose, with its power, what it
// said it had written.
const (
	RecordFile = desired.State + `\node.json`
	RecordCopy = desired.State + `\node.copy.json`
)

// Record is the content of RecordFile. Its token is always empty.
type Record struct {
	agent.JoinRequest
	// Complete is false while the join is under way, or after it was cut.
	Complete bool `json:"complete"`
	// Pulled is true while the service itself makes the host so, or was interrupted in it and is to go on; false in a join.
	Pulled bool `json:"pulled,omitempty"`
	// Leaving is true from when the host is to leave its cluster: nothing of it is kept any more.
	Leaving bool `json:"leaving,omitempty"`
}

// ErrUnreadable is the class of errors for which the content of a record is to blame.
var ErrUnreadable = errors.New("it is not what WICD wrote")

// Read returns what the last join asked for. Before the first one, it is fs.ErrNotExist.
func Read(d host.Disk) (Record, error) { return readFrom(d, RecordFile) }

func readFrom(d host.Disk, name string) (Record, error) {
	b, err := d.Read(name)
	if err != nil {
		return Record{}, err
	}
	var r Record
	err = json.Unmarshal(b, &r)
	if err == nil && r.Node == "" {
		err = errors.New("it names no node")
	}
	if err != nil {
		return Record{}, fmt.Errorf("reading %s: %w: %w", name, ErrUnreadable, err)
	}
	return r, nil
}

// Restore puts the copy in the place of a record that cannot be read. A join that is under way does better.
func Restore(h host.Host) (Record, error) {
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
	if _, err := r.Write(h.Disk); err == nil { // otherwise the next start tries again
		Note(h.Disk, agent.JournalEntry{Time: time.Now().UTC(), Step: "service", Change: RecordFile + " restored from its copy"})
	}
	return r, nil
}

// ReadFormer is the record, or an empty one when there is none or it is unreadable: then the join starts again.
func ReadFormer(d host.Disk) (Record, error) {
	r, err := Read(d)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrUnreadable) {
		return Record{}, nil
	}
	return r, err
}

// Wanted is what was asked for of this host, with nothing left open, and with services in the order in which they start.
func (r Record) Wanted() (desired.Node, error) {
	wanted, err := r.Desired.On(r.Local, r.Secrets)
	if err != nil {
		return desired.Node{}, err
	}
	wanted.Services, err = desired.Order(wanted.Services)
	return wanted, err
}

// Write puts the record on disk, and one that is complete, or the last before the host leaves, into the copy. changed is false when it is there already.
func (r Record) Write(d host.Disk) (changed bool, err error) {
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

// ReadLast is what the last join asked for, an empty one when there was none. One that cannot be read is taken from its copy.
func ReadLast(d host.Disk) (Record, error) {
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

// IsCurrent tells whether the record on disk is still this one. One that cannot be read counts as such.
func (r Record) IsCurrent(d host.Disk) bool {
	is, err := Read(d)
	return err != nil || reflect.DeepEqual(is, r)
}
