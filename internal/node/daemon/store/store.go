package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// partSuffix is the suffix of incomplete contents: the beginning of the compressed bytes.
const partSuffix = ".part"

// Store is C:\k\store, where each content is named by its hash.
type Store struct{ disk hostapi.Disk }

// New returns the store on a disk.
func New(d hostapi.Disk) Store { return Store{disk: d} }

// Path returns the path of the blob with a hash.
func (s Store) Path(sha256 string) string { return desired.Store + `\` + sha256 }

func (s Store) part(sha256 string) string { return s.Path(sha256) + partSuffix }

// adopt copies the running program into the store, if it is in the list and not in the store.
func (s Store) adopt(list []wicdapi.Content, open func() (io.ReadCloser, error)) error {
	if !slices.ContainsFunc(list, func(c wicdapi.Content) bool { return !s.disk.Exists(s.Path(c.SHA256)) }) {
		return nil
	}
	program, err := open()
	if err != nil {
		return err
	}
	defer program.Close()
	content, err := io.ReadAll(program)
	if err != nil {
		return err
	}
	name := hashOf(content)
	wanted := slices.ContainsFunc(list, func(c wicdapi.Content) bool { return c.SHA256 == name })
	if !wanted || s.disk.Exists(s.Path(name)) {
		return nil
	}
	_, err = s.disk.WriteFile(s.Path(name), string(content))
	return err
}

// HashOf returns the SHA-256 of a reader's data, in hex.
func HashOf(r io.Reader) (string, error) {
	hash := sha256.New()
	if _, err := io.CopyBuffer(hash, r, make([]byte, 1<<20)); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// Verify reads the contents in parallel and returns which are present and intact. Those that do not match their name are removed and
// listed as altered.
func (s Store) Verify(ctx context.Context, list []wicdapi.Content) (have map[string]bool, altered []string, err error) {
	have = map[string]bool{}
	states := make([]contentState, len(list))
	var taken atomic.Int64
	var workers sync.WaitGroup
	for range min(4, runtime.GOMAXPROCS(0), len(list)) {
		workers.Go(func() {
			for i := taken.Add(1) - 1; i < int64(len(list)) && ctx.Err() == nil; i = taken.Add(1) - 1 {
				states[i] = s.check(list[i])
			}
		})
	}
	workers.Wait()
	for i, c := range list {
		switch v := states[i]; {
		case v.err != nil:
			return nil, nil, fmt.Errorf("verifying content %.12s: %w", c.SHA256, v.err)
		case v.altered:
			altered = append(altered, c.SHA256)
			if err := s.disk.Clear(s.Path(c.SHA256)); err != nil {
				return nil, nil, fmt.Errorf("removing altered content %.12s: %w", c.SHA256, err)
			}
		default:
			have[c.SHA256] = v.isPresent
		}
	}
	return have, altered, ctx.Err()
}

// contentState is the state of a content in the store.
type contentState struct {
	isPresent, altered bool
	err                error
}

func (s Store) check(c wicdapi.Content) contentState {
	f, err := s.disk.Open(s.Path(c.SHA256))
	if errors.Is(err, fs.ErrNotExist) {
		return contentState{}
	}
	if err != nil {
		return contentState{err: err}
	}
	defer f.Close()
	hash := sha256.New()
	n, err := io.CopyBuffer(hash, f, make([]byte, 1<<20))
	if err != nil {
		return contentState{err: err}
	}
	if n != c.Size || hex.EncodeToString(hash.Sum(nil)) != c.SHA256 {
		return contentState{altered: true}
	}
	return contentState{isPresent: true}
}

// received returns how many compressed bytes of a content were received. If there are more than the content has, they are removed.
func (s Store) received(c wicdapi.Content) (int64, error) {
	info, err := s.disk.Stat(s.part(c.SHA256))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if info.Size() <= c.CompressedSize && info.Mode().IsRegular() {
		return info.Size(), nil
	}
	return 0, s.disk.Remove(s.part(c.SHA256))
}

// IsHash reports whether a string is a SHA-256 in lower-case hex, which as a name cannot leave the store.
func IsHash(s string) bool {
	return len(s) == 2*sha256.Size && strings.Trim(s, "0123456789abcdef") == ""
}
