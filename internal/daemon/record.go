package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/desired"
)

// recordFile is what the last join asked for. A join writes it before it touches services and completes it at its
// end; the service lives by it.
const recordFile = desired.State + `\node.json`

// record is the content of recordFile. Its token is always empty.
type record struct {
	agent.JoinRequest
	// Complete is false while the join is under way, or after it was cut.
	Complete bool `json:"complete"`
	// Pulled is true while the service itself makes the host so, or was interrupted in it and is to go on; false in a join.
	Pulled bool `json:"pulled,omitempty"`
}

// readRecord returns what the last join asked for. Before the first one, it is fs.ErrNotExist.
func readRecord(d Disk) (record, error) {
	b, err := d.Read(recordFile)
	if err != nil {
		return record{}, err
	}
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		return record{}, fmt.Errorf("reading %s: %w", recordFile, err)
	}
	return r, nil
}

// formerRecord is the record, or an empty one when there is none or it is unreadable: then the join starts anew.
func formerRecord(d Disk) (record, error) {
	r, err := readRecord(d)
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	if errors.Is(err, fs.ErrNotExist) || errors.As(err, &syntax) || errors.As(err, &mismatch) {
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

// write puts the record on disk. changed is false when it is there already.
func (r record) write(d Disk) (changed bool, err error) {
	r.Bootstrap.Token = ""
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return false, err
	}
	changed, err = d.WriteFile(recordFile, string(b)+"\n")
	if err != nil {
		return changed, fmt.Errorf("writing %s: %w", recordFile, err)
	}
	return changed, nil
}
