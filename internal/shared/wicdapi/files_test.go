package wicdapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// fileHost is a host that passes the input of commands in files. Each command runs its program.
type fileHost struct {
	program func(ctx context.Context, in io.Reader, out io.Writer) error
	absent  bool // the program does not exist
	fails   error

	mu       sync.Mutex
	folder   string
	files    map[string][]byte
	most     int // files at once
	commands []string
}

// Run implements wicdapi.Runner.
func (h *fileHost) Run(ctx context.Context, command string, stdin io.Reader, stdout io.Writer) error {
	h.commands = append(h.commands, command)
	if stdin != nil {
		return errors.New("the command has standard input")
	}
	_, folder, _ := strings.Cut(command, " --input=")
	if h.absent || !wicdapi.IsInput(folder) {
		return errors.New("exit status 1")
	}
	h.set(folder, map[string][]byte{})
	defer h.set("", nil)
	return h.program(ctx, wicdapi.NewInput(ctx, h.take), stdout)
}

func (h *fileHost) set(folder string, files map[string][]byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.folder, h.files = folder, files
}

func (h *fileHost) take(name string, atMost int64) ([]byte, bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	content, found := h.files[name]
	delete(h.files, name)
	return content[:min(int64(len(content)), atMost)], found, nil
}

// Files implements wicdapi.FileRunner.
func (h *fileHost) Files(_ context.Context, use func(wicdapi.Files) error) error { return use(h) }

func (h *fileHost) Write(name string, content []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	folder, file, _ := strings.Cut(name, "/")
	if h.fails != nil {
		return h.fails
	}
	if folder != h.folder || folder == "" {
		return errors.New("no such folder")
	}
	h.files[file] = bytes.Clone(content)
	h.most = max(h.most, len(h.files))
	return nil
}

func (h *fileHost) Exists(name string) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	folder, file, _ := strings.Cut(name, "/")
	_, found := h.files[file]
	return folder == h.folder && (file == "" || found), nil
}

func (h *fileHost) Path(name string) (string, error) { return name, nil }

func TestInputIsSentAsFiles(t *testing.T) {
	for _, size := range []int{0, 1, 1<<20 - 1, 1 << 20, 1<<20 + 1, 5<<20 + 7} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := bytes.Repeat([]byte("0123456"), size/7+1)[:size]
				var got []byte
				h := &fileHost{program: func(_ context.Context, in io.Reader, _ io.Writer) (err error) {
					got, err = io.ReadAll(in)
					return err
				}}
				if err := (wicdapi.ByFiles{Host: h}).Run(t.Context(), "wicd receive", bytes.NewReader(sent), io.Discard); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, sent) {
					t.Errorf("%d bytes arrived of %d, or others", len(got), len(sent))
				}
				if h.most > 2 {
					t.Errorf("%d files were on the host at once, want at most 2", h.most)
				}
			})
		})
	}
}

func TestUnreadInputIsNoError(t *testing.T) {
	for name, test := range map[string]struct {
		input io.Reader
		reads int
	}{
		"the program reads a part":  {strings.NewReader(strings.Repeat("x", 8<<20)), 10},
		"the program reads nothing": {strings.NewReader("x"), 0},
		"the input does not end":    {newEndless(), 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &fileHost{program: func(_ context.Context, in io.Reader, _ io.Writer) error {
					_, err := io.ReadFull(in, make([]byte, test.reads))
					time.Sleep(time.Second)
					return err
				}}
				if err := (wicdapi.ByFiles{Host: h}).Run(t.Context(), "wicd join", test.input, io.Discard); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// endless is an input that never ends and yields a few bytes from time to time.
type endless struct{}

func newEndless() io.Reader { return endless{} }

func (endless) Read(p []byte) (int, error) {
	time.Sleep(10 * time.Millisecond)
	return copy(p, "0123456789"), nil
}

func TestFailedInputFileEndsCommand(t *testing.T) {
	full, broken := errors.New("disk full"), errors.New("the blob is damaged")
	waits := func(_ context.Context, in io.Reader, _ io.Writer) error {
		_, err := io.Copy(io.Discard, in)
		return err
	}
	for name, test := range map[string]struct {
		host  *fileHost
		input io.Reader
		want  error
	}{
		"writing fails":              {&fileHost{program: waits, fails: full}, strings.NewReader("x"), full},
		"the input breaks off":       {&fileHost{program: waits}, io.MultiReader(strings.NewReader("x"), failing{broken}), broken},
		"the program does not exist": {&fileHost{absent: true}, strings.NewReader("x"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := (wicdapi.ByFiles{Host: test.host}).Run(t.Context(), "wicd join", test.input, io.Discard)
				if err == nil || test.want != nil && !errors.Is(err, test.want) {
					t.Errorf("got %v, want %v", err, test.want)
				}
			})
		})
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestWaitingForInputTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		in := wicdapi.NewInput(t.Context(), func(string, int64) ([]byte, bool, error) { return nil, false, nil })
		if _, err := in.Read(make([]byte, 1)); err == nil || err == io.EOF {
			t.Errorf("got %v, want nothing", err)
		}
		if took := time.Since(began); took > 3*time.Minute {
			t.Errorf("it waited %s while it held the lock of all commands", took)
		}
	})
}

func TestOperatorPauseDoesNotEndInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fileHost{program: func(_ context.Context, in io.Reader, _ io.Writer) error {
			_, err := io.ReadAll(in)
			return err
		}}
		r, w := io.Pipe()
		go func() {
			_, _ = w.Write([]byte("begin"))
			time.Sleep(10 * time.Minute)
			_ = w.Close()
		}()
		if err := (wicdapi.ByFiles{Host: h}).Run(t.Context(), "wicd receive", r, io.Discard); err != nil {
			t.Error(err)
		}
	})
}

func FuzzInput(f *testing.F) {
	f.Add([]byte("ab"), 3, true)
	f.Fuzz(func(t *testing.T, piece []byte, pieces int, tooLarge bool) {
		pieces = max(0, min(pieces, 8))
		taken := 0
		in := wicdapi.NewInput(t.Context(), func(name string, atMost int64) ([]byte, bool, error) {
			if strings.HasSuffix(name, ".last") != (taken == pieces) {
				return nil, false, nil
			}
			taken++
			if tooLarge {
				return make([]byte, atMost), true, nil
			}
			return piece, true, nil
		})
		got, err := io.ReadAll(in)
		if tooLarge && err == nil {
			t.Error("a piece of any size is read")
		}
		if !tooLarge && (err != nil || len(got) != len(piece)*(pieces+1)) {
			t.Errorf("%d bytes of %d pieces of %d, %v", len(got), pieces+1, len(piece), err)
		}
	})
}
