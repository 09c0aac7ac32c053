package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/host"
)

// recordFile is what the last join asked for. A join writes it before it touches services and completes it at its
// end; the service lives by it. recordCopy is what the last completed one says: a disk may lose, with its power, what it
// said it had written.
const (
	recordFile = desired.State + `\node.json`
	recordCopy = desired.State + `\node.copy.json`
)

// record is the content of recordFile. Its token is always empty.
type record struct {
	agent.JoinRequest
	// Complete is false while the join is under way, or after it was cut.
	Complete bool `json:"complete"`
	// Pulled is true while the service itself makes the host so, or was interrupted in it and is to go on; false in a join.
	Pulled bool `json:"pulled,omitempty"`
	// Leaving is true from when the host is to leave its cluster: nothing of it is kept any more.
	Leaving bool `json:"leaving,omitempty"`
}

// errUnreadable is the class of errors for which the content of a record is to blame.
var errUnreadable = errors.New("it is not what WICD wrote")

// readRecord returns what the last join asked for. Before the first one, it is fs.ErrNotExist.
func readRecord(d host.Disk) (record, error) { return readRecordFrom(d, recordFile) }

func readRecordFrom(d host.Disk, name string) (record, error) {
	b, err := d.Read(name)
	if err != nil {
		return record{}, err
	}
	var r record
	err = json.Unmarshal(b, &r)
	if err == nil && r.Node == "" {
		err = errors.New("it names no node")
	}
	if err != nil {
		return record{}, fmt.Errorf("reading %s: %w: %w", name, errUnreadable, err)
	}
	return r, nil
}

// restoreRecord puts the copy in the place of a record that cannot be read. A join that is under way does better.
func restoreRecord(h host.Host) (record, error) {
	release, err := h.System.Lock(commandLock)
	if err != nil {
		return record{}, err
	}
	defer release()
	r, err := readRecord(h.Disk)
	if !errors.Is(err, errUnreadable) {
		return r, err
	}
	r, errCopy := readRecordFrom(h.Disk, recordCopy)
	if errCopy != nil {
		return record{}, errors.Join(err, errCopy)
	}
	if _, err := r.write(h.Disk); err == nil { // otherwise the next start tries again
		note(h.Disk, agent.JournalEntry{Time: time.Now().UTC(), Step: "service", Change: recordFile + " restored from its copy"})
	}
	return r, nil
}

// formerRecord is the record, or an empty one when there is none or it is unreadable: then the join starts anew.
func formerRecord(d host.Disk) (record, error) {
	r, err := readRecord(d)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errUnreadable) {
		return record{}, nil
	}
	return r, err
}

// wanted is what was asked for of this host, with nothing left open, and with services in the order in which they start.
func (r record) wanted() (desired.Node, error) {
	wanted, err := r.Desired.On(r.Local, r.Secrets)
	if err != nil {
		return desired.Node{}, err
	}
	wanted.Services, err = arrange(wanted.Services)
	return wanted, err
}

// write puts the record on disk, and one that is complete, or the last before the host leaves, into the copy. changed is false when it is there already.
func (r record) write(d host.Disk) (changed bool, err error) {
	r.Bootstrap.Token = ""
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return false, err
	}
	changed, err = d.WriteFile(recordFile, string(b)+"\n")
	if err == nil && (r.Complete || r.Leaving) {
		_, err = d.WriteFile(recordCopy, string(b)+"\n")
	}
	if err != nil {
		return changed, fmt.Errorf("writing %s: %w", recordFile, err)
	}
	return changed, nil
}
