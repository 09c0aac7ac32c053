package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"
)

// FlagInput is the flag of each command that has it take its input from files, in place of standard input: it names the folder, beside the
// program, that the command makes for them. The operator puts the input there in pieces, by SFTP, and the command removes each that it has
// read. Some SSH servers for Windows do not hand on what is sent to standard input.
const FlagInput = "input"

const (
	// pieceSize bounds one piece of the input, in bytes.
	pieceSize = 1 << 20
	// piecesAhead is how many pieces may wait to be read.
	piecesAhead = 2
	// inputWithin is how long a command waits for the next piece: on some hosts, it runs on when its connection ends. The operator puts an
	// empty piece there after inputIdle without input.
	inputWithin, inputIdle = 2 * time.Minute, 30 * time.Second
	// inputPoll is how often either side looks whether the other has done its part.
	inputPoll = 50 * time.Millisecond
)

// newInput is a name for the folder of one input that nobody can guess: other users of the host may not read what is in it, but where they
// know its name, they could make a folder in its place.
func newInput() string { return "wicd-input-" + rand.Text() }

// inputName is the form of the name of an input's folder.
func inputName() *regexp.Regexp { return regexp.MustCompile(`^wicd-input-[A-Z2-7]{26}$`) }

// IsInput tells whether a name is that of an input's folder.
func IsInput(name string) bool { return inputName().MatchString(name) }

// pieceName is the name of a piece of the input. The last one has another ending.
func pieceName(n int, last bool) string {
	if last {
		return fmt.Sprintf("%06d.last", n)
	}
	return fmt.Sprintf("%06d.piece", n)
}

// Take opens a file of the input's folder, reads at most so many bytes of it and removes it. A file that is not there yet is no error.
type Take func(name string, atMost int64) (content []byte, there bool, err error)

// NewInput reads an input that comes in files, until ctx ends.
func NewInput(ctx context.Context, take Take) io.Reader { return &input{ctx: ctx, take: take} }

// input is an input that comes in files.
type input struct {
	ctx  context.Context // of the command
	take Take
	// taken pieces, what was not read of the last one, and whether it is the last of all.
	taken int
	rest  []byte
	ended bool
}

// Read implements io.Reader.
func (in *input) Read(p []byte) (int, error) {
	for len(in.rest) == 0 {
		if in.ended {
			return 0, io.EOF
		}
		if err := in.await(); err != nil {
			return 0, err
		}
	}
	n := copy(p, in.rest)
	in.rest = in.rest[n:]
	return n, nil
}

// await waits for the next piece.
func (in *input) await() error {
	for until := time.Now().Add(inputWithin); ; {
		for _, last := range []bool{false, true} {
			piece, there, err := in.take(pieceName(in.taken+1, last), pieceSize+1)
			switch {
			case err != nil:
				return fmt.Errorf("reading the input from its files: %w", err)
			case len(piece) > pieceSize:
				return fmt.Errorf("reading the input from its files: a file of it has more than %d bytes", pieceSize)
			case there:
				in.taken, in.rest, in.ended = in.taken+1, piece, last
				return nil
			}
		}
		if time.Now().After(until) {
			return fmt.Errorf("reading the input from its files: nothing came for %s", inputWithin)
		}
		select {
		case <-in.ctx.Done():
			return context.Cause(in.ctx)
		case <-time.After(inputPoll):
		}
	}
}

// errFinished means that the command needs no more input.
var errFinished = errors.New("the command has ended")
