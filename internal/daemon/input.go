package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/backoff"
	"github.com/windows-machine-config/wmco/internal/host"
)

// inputs are the folders from whose files commands have their input, beside the program.
type inputs struct {
	host   host.Host
	beside string
}

// staleInput is the age at which the folder of an input cannot belong to a command that runs: it waits for minutes only.
const staleInput = time.Hour

// How long, and how often, the folder of an input is removed again while something is put into it.
const (
	removeWithin = 10 * time.Second
	removeEvery  = 300 * time.Millisecond
)

// open makes the folder of an input, and reads what is put there. Only the system and its administrators may read it, also where the program lies
// in a folder that everybody may read: the request of a join has secrets.
func (i inputs) open(ctx context.Context, name string) (in io.Reader, remove func() error, err error) {
	if !agent.IsInput(name) || i.beside == "" {
		return nil, nil, &agent.Error{Code: agent.CodeRequestInvalid, Message: fmt.Sprintf(
			"--%s is %q; wicd-input- and 26 letters and digits are allowed", agent.FlagInput, name)}
	}
	i.removeStale()
	folder := i.beside + `\` + name
	made, err := i.host.Rights.MakeFolder(folder, host.Private)
	if err == nil && !made {
		err = errors.New("it is there already")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("making %s for the input: %w", folder, err)
	}
	return agent.NewInput(ctx, i.take(folder)), func() error { return i.remove(ctx, folder) }, nil
}

// remove removes the folder. Into it the operator may still put the end of the input, without which the command had all that it needs.
func (i inputs) remove(ctx context.Context, folder string) error {
	for end := time.Now().Add(removeWithin); ; {
		err := i.host.Disk.RemoveAll(folder)
		if err == nil || time.Now().After(end) {
			return err
		}
		if backoff.Sleep(ctx, removeEvery) != nil {
			return err
		}
	}
}

// take reads and removes files of a folder.
func (i inputs) take(folder string) agent.Take {
	disk := i.host.Disk
	return func(name string, atMost int64) (content []byte, there bool, err error) {
		f, err := disk.Open(folder + `\` + name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, false, nil
		}
		if err != nil {
			return nil, false, err
		}
		content, err = io.ReadAll(io.LimitReader(f, atMost))
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, false, err
		}
		return content, true, disk.Remove(folder + `\` + name)
	}
}

// removeStale removes what commands left that did not come to their end. What cannot be removed is so the next time.
func (i inputs) removeStale() {
	names, _ := i.host.Disk.List(i.beside)
	for _, name := range names {
		folder := i.beside + `\` + name
		if info, err := i.host.Disk.Stat(folder); err == nil && agent.IsInput(name) && time.Since(info.ModTime()) > staleInput {
			_ = i.host.Disk.RemoveAll(folder)
		}
	}
}
