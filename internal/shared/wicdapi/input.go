package wicdapi

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"
)

// FlagInput is the flag that makes a command read its input from files instead of standard input: it names the folder, next to the
// program, that the command creates for them. The operator writes the input there in pieces, by SFTP, and the command removes each piece
// after reading it. Some SSH servers for Windows do not pass data on to standard input.
const FlagInput = "input"

const (
	// pieceSize is the maximum size of a piece of the input, in bytes.
	pieceSize = 1 << 20
	// piecesAhead is the maximum number of unread pieces.
	piecesAhead = 2
	// inputTimeout is how long a command waits for the next piece: on some hosts, it keeps running after its connection ends. The operator
	// writes an empty piece after inputIdle without input.
	inputTimeout, inputIdle = 2 * time.Minute, 30 * time.Second
	// inputPoll is how often each side checks the progress of the other.
	inputPoll = 50 * time.Millisecond
)

// newInput returns an unguessable name for the folder of one input: other users of the host cannot read the folder, but if they knew its
// name, they could create it first.
func newInput() string { return "wicd-input-" + rand.Text() }

// inputName matches the name of an input's folder.
var inputName = regexp.MustCompile(`^wicd-input-[A-Z2-7]{26}$`)

// IsInput reports whether a name is that of an input's folder.
func IsInput(name string) bool { return inputName.MatchString(name) }

// pieceName returns the name of a piece of the input. The last piece has another extension.
func pieceName(n int, last bool) string {
	if last {
		return fmt.Sprintf("%06d.last", n)
	}
	return fmt.Sprintf("%06d.piece", n)
}

// Take reads at most atMost bytes of a file in the input's folder and removes the file. A file that does not exist yet is not an error.
type Take func(name string, atMost int64) (content []byte, there bool, err error)

// NewInput returns a reader of an input from files. Reading ends with ctx.
func NewInput(ctx context.Context, take Take) io.Reader { return &input{ctx: ctx, take: take} }

// input is an input from files.
type input struct {
	ctx  context.Context // of the command
	take Take
	// Number of pieces read, the unread rest of the last one, and whether it was the final piece.
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
	for until := time.Now().Add(inputTimeout); ; {
		for _, last := range []bool{false, true} {
			piece, found, err := in.take(pieceName(in.taken+1, last), pieceSize+1)
			switch {
			case err != nil:
				return fmt.Errorf("reading the input from its files: %w", err)
			case len(piece) > pieceSize:
				return fmt.Errorf("reading the input from its files: a file has more than %d bytes", pieceSize)
			case found:
				in.taken, in.rest, in.ended = in.taken+1, piece, last
				return nil
			}
		}
		if time.Now().After(until) {
			return fmt.Errorf("reading the input from its files: no data for %s", inputTimeout)
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
