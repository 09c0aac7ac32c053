package wicdapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Files gives access to a host's files by SFTP. Names have forward slashes; relative ones start in the home folder of the login
// user.
type Files interface {
	// Write creates a file with this content atomically.
	Write(name string, content []byte) error
	// Exists reports whether a file or folder exists.
	Exists(name string) (bool, error)
	// Path returns the full Windows path of a file.
	Path(name string) (string, error)
}

// FileRunner is a Runner that also gives access to the host's files.
type FileRunner interface {
	Runner
	// Files calls use with the files of the host, until use returns or ctx is done.
	Files(ctx context.Context, use func(Files) error) error
}

// ByFiles runs commands of WICD with their input in files, for hosts where standard input does not arrive completely.
type ByFiles struct{ Host FileRunner }

// Run implements Runner.
func (b ByFiles) Run(ctx context.Context, command string, stdin io.Reader, stdout io.Writer) error {
	if stdin == nil {
		return b.Host.Run(ctx, command, nil, stdout)
	}
	folder := newInput()
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	feedCtx, finish := context.WithCancelCause(running)
	defer finish(nil)
	feedDone := make(chan struct{})
	go func() {
		defer close(feedDone)
		err := b.Host.Files(feedCtx, func(f Files) error {
			return (&feed{ctx: feedCtx, files: f, folder: folder, chunks: read(feedCtx, stdin)}).run()
		})
		if err != nil && !errors.Is(err, errFinished) {
			stop(fmt.Errorf("passing the input as files: %w", err))
		}
	}()
	err := b.Host.Run(running, command+" --"+FlagInput+"="+folder, nil, stdout)
	finish(errFinished)
	<-feedDone
	if cause := context.Cause(running); err != nil && cause != nil {
		return cause
	}
	return err
}

// chunk is the result of one Read.
type chunk struct {
	content []byte
	err     error
}

// read reads until an error or EOF. It does not wait for a Read that blocks when ctx ends.
func read(ctx context.Context, r io.Reader) <-chan chunk {
	chunks := make(chan chunk)
	go func() {
		for {
			buffer := make([]byte, 64<<10)
			n, err := r.Read(buffer)
			select {
			case chunks <- chunk{buffer[:n], err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return chunks
}

// feed writes the input of one command into the folder that the command creates.
type feed struct {
	ctx    context.Context // of the command
	files  Files
	folder string
	chunks <-chan chunk

	held  []byte // not written yet
	ended bool   // nothing follows what is held
	put   int    // pieces written
	done  bool   // the last piece is written
}

func (f *feed) run() error {
	if err := f.until(func() (bool, error) { return f.files.Exists(f.folder) }); err != nil {
		return err
	}
	for !f.done {
		if err := f.gather(); err != nil {
			return err
		}
		if err := f.until(f.hasRoom); err != nil {
			return err
		}
		if err := f.putPiece(); err != nil {
			return err
		}
	}
	return nil
}

// gather waits for input and collects what is available, up to the size of a piece.
func (f *feed) gather() error {
	idle := time.NewTimer(inputIdle)
	defer idle.Stop()
	for !f.ended && len(f.held) < pieceSize {
		if len(f.held) > 0 {
			select {
			case c := <-f.chunks:
				if err := f.take(c); err != nil {
					return err
				}
				continue
			case <-time.After(inputPoll / 10): // nothing more available
				return nil
			}
		}
		select {
		case <-f.ctx.Done():
			return context.Cause(f.ctx)
		case <-idle.C:
			return nil
		case c := <-f.chunks:
			if err := f.take(c); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *feed) take(c chunk) error {
	f.held = append(f.held, c.content...)
	if f.ended = errors.Is(c.err, io.EOF); f.ended || c.err == nil {
		return nil
	}
	return fmt.Errorf("reading it: %w", c.err)
}

// hasRoom reports whether the command has read enough pieces for another to be written.
func (f *feed) hasRoom() (bool, error) {
	if f.put < piecesAhead {
		return true, nil
	}
	waits, err := f.files.Exists(f.folder + "/" + pieceName(f.put-piecesAhead+1, false))
	return !waits, err
}

// putPiece writes the next piece. If the folder is gone, the command needs no more input.
func (f *feed) putPiece() error {
	piece := f.held[:min(len(f.held), pieceSize)]
	last := f.ended && len(piece) == len(f.held)
	if err := f.files.Write(f.folder+"/"+pieceName(f.put+1, last), piece); err != nil {
		if found, statErr := f.files.Exists(f.folder); statErr == nil && !found {
			return errFinished
		}
		return err
	}
	f.held = append(f.held[:0], f.held[len(piece):]...)
	f.put, f.done = f.put+1, last
	return nil
}

// until waits until a condition holds on the host.
func (f *feed) until(condition func() (bool, error)) error {
	for {
		done, err := condition()
		if err != nil || done {
			return err
		}
		select {
		case <-f.ctx.Done():
			return context.Cause(f.ctx)
		case <-time.After(inputPoll):
		}
	}
}
