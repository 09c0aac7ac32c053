package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// inputs manages the folders beside the program from whose files commands read their input.
type inputs struct {
	host   hostapi.Host
	beside string
}

// staleInput is the age after which an input's folder cannot belong to a running command, which waits for minutes only.
const staleInput = time.Hour

// How long, and how often, the removal of an input's folder is retried while the operator still writes to it.
const (
	removeTimeout  = 10 * time.Second
	removeInterval = 300 * time.Millisecond
)

// open creates the folder of an input, and reads what is put there. Only SYSTEM and administrators may read it, even if the program is in a folder
// that everyone may read: a join request has secrets.
func (i inputs) open(ctx context.Context, name string) (in io.Reader, remove func() error, err error) {
	if !wicdapi.IsInput(name) || i.beside == "" {
		return nil, nil, &wicdapi.Error{Code: wicdapi.CodeRequestInvalid, Message: fmt.Sprintf(
			"--%s is %q; wicd-input- and 26 letters and digits are allowed", wicdapi.FlagInput, name)}
	}
	i.removeStale()
	folder := i.beside + `\` + name
	created, err := i.host.Rights.MakeFolder(folder, hostapi.Private)
	if err == nil && !created {
		err = errors.New("it already exists")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("creating %s for the input: %w", folder, err)
	}
	return wicdapi.NewInput(ctx, i.take(folder)), func() error { return i.remove(ctx, folder) }, nil
}

// remove removes the folder. The operator may still be writing the end of the input to it, which the command did not need.
func (i inputs) remove(ctx context.Context, folder string) error {
	for end := time.Now().Add(removeTimeout); ; {
		err := i.host.Disk.RemoveAll(folder)
		if err == nil || time.Now().After(end) {
			return err
		}
		if backoff.Sleep(ctx, removeInterval) != nil {
			return err
		}
	}
}

// take reads and removes files of a folder.
func (i inputs) take(folder string) wicdapi.Take {
	disk := i.host.Disk
	return func(name string, limit int64) (content []byte, found bool, err error) {
		f, err := disk.Open(folder + `\` + name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, false, nil
		}
		if err != nil {
			return nil, false, err
		}
		content, err = io.ReadAll(io.LimitReader(f, limit))
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, false, err
		}
		return content, true, disk.Remove(folder + `\` + name)
	}
}

// removeStale removes the folders of commands that were interrupted. Failures are left to the next command.
func (i inputs) removeStale() {
	names, _ := i.host.Disk.List(i.beside)
	for _, name := range names {
		folder := i.beside + `\` + name
		if info, err := i.host.Disk.Stat(folder); err == nil && wicdapi.IsInput(name) && time.Since(info.ModTime()) > staleInput {
			_ = i.host.Disk.RemoveAll(folder)
		}
	}
}
