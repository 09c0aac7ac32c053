package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/host"
	"github.com/windows-machine-config/wmco/payload/compress"
)

// unpacker turns parts that are complete into contents, up to two at a time: each takes a processor, and the memory of a program and
// its dictionary.
type unpacker struct {
	Store
	places  chan struct{}
	running sync.WaitGroup
	// started are the contents that are unpacked, by hash, and in the order in which they arrived.
	started map[string]*unpacking
	order   []*unpacking
	// related are the contents that others are compressed with, by hash.
	related map[string]*related
}

// unpacking is one content on its way from its part to the disk.
type unpacking struct {
	// done is closed when the content is on the disk, or err says why not.
	done chan struct{}
	err  error
}

// newUnpacker makes an unpacker for contents that arrive in this order.
func newUnpacker(s Store, list []agent.Content) *unpacker {
	u := &unpacker{Store: s, places: make(chan struct{}, min(2, runtime.GOMAXPROCS(0))), started: map[string]*unpacking{}, related: map[string]*related{}}
	for _, c := range list {
		if c.Dictionary == "" {
			continue
		}
		if u.related[c.Dictionary] == nil {
			u.related[c.Dictionary] = &related{}
		}
		u.related[c.Dictionary].users++
	}
	return u
}

// start turns a part into the content. A part that does not give the content is thrown away. Finish tells the error.
func (u *unpacker) start(c agent.Content) {
	p := &unpacking{done: make(chan struct{})}
	u.started[c.SHA256], u.order = p, append(u.order, p)
	before := u.started[c.Dictionary] // nil when the host has it, or there is none
	u.running.Go(func() {
		defer close(p.done)
		if before != nil {
			<-before.done // before a place is taken: it needs one
		}
		u.places <- struct{}{}
		defer func() { <-u.places }()
		if err := u.unpack(c); err != nil {
			p.err = u.failure(c, err)
		}
	})
}

// finish returns when everything is written, with what went wrong.
func (u *unpacker) finish() error {
	u.running.Wait()
	var errs []error
	for _, p := range u.order {
		errs = append(errs, p.err)
	}
	return errors.Join(errs...)
}

func (u *unpacker) unpack(c agent.Content) error {
	content, err := u.content(c)
	if err != nil {
		return err
	}
	if err := u.write(c, content); err != nil {
		return err
	}
	if r := u.related[c.SHA256]; r != nil {
		r.is(content)
	}
	return nil
}

// failure is why a part did not become a content.
func (u *unpacker) failure(c agent.Content, err error) error {
	if !errors.Is(err, errAltered) {
		return fmt.Errorf("unpacking content %.12s: %w", c.SHA256, err)
	}
	return errors.Join(&agent.Error{
		Code:    agent.CodeContentAltered,
		Message: fmt.Sprintf("content %.12s did not arrive as it was sent: %v; it is thrown away and must be sent again", c.SHA256, err),
	}, u.disk.Remove(u.part(c.SHA256)))
}

// errAltered is the class of errors for which the bytes are to blame.
var errAltered = errors.New("altered")

// largeBytes is the size from which on the memory of the contents before is given back first: a kubelet, its dictionary and what
// was there before them would need twice as much.
const largeBytes = 1 << 20

// content is what a part gives.
func (u *unpacker) content(c agent.Content) ([]byte, error) {
	if c.Size >= largeBytes {
		debug.FreeOSMemory()
	}
	var dictionary compress.Dictionary
	if r := u.related[c.Dictionary]; r != nil {
		var err error
		if dictionary, err = r.use(func() ([]byte, error) { return u.verified(c.Dictionary) }); err != nil {
			return nil, err
		}
		defer r.release()
	}
	frame, err := u.read(u.part(c.SHA256), c.CompressedSize)
	if err != nil {
		return nil, err
	}
	content, err := compress.Decompress(frame, c.Size, dictionary)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errAltered, err)
	}
	if sum := hashOf(content); sum != c.SHA256 {
		return nil, fmt.Errorf("%w: its SHA-256 is %s", errAltered, sum)
	}
	return content, nil
}

// verified reads a dictionary from the store. It is verified, as the part would be to blame for what is wrong with it.
func (u *unpacker) verified(name string) ([]byte, error) {
	program, err := u.read(u.Path(name), compress.MaxSize)
	if err != nil {
		return nil, fmt.Errorf("reading its dictionary: %w", err)
	}
	if sum := hashOf(program); sum != name {
		return nil, fmt.Errorf("its dictionary, content %.12s, has SHA-256 %s", name, sum)
	}
	return program, nil
}

// related is a content that others are compressed with. It is in memory from its first use to its last.
type related struct {
	mu         sync.Mutex
	users      int
	loaded     bool
	dictionary compress.Dictionary
}

// is keeps the content, which was just written, for its users. Its bytes must not be used any more.
func (r *related) is(content []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dictionary, r.loaded = compress.NewDictionary(content), true
}

// use returns the dictionary, and loads it where it is not in memory. Release it after a use without an error.
func (r *related) use(load func() ([]byte, error)) (compress.Dictionary, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.loaded {
		content, err := load()
		if err != nil {
			return compress.Dictionary{}, err
		}
		r.dictionary, r.loaded = compress.NewDictionary(content), true
	}
	return r.dictionary, nil
}

func (r *related) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users--; r.users == 0 {
		r.dictionary, r.loaded = compress.Dictionary{}, false
	}
}

// read reads a file of at most so many bytes.
func (u *unpacker) read(name string, most int64) ([]byte, error) {
	f, err := u.disk.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := u.disk.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Size() > most {
		return nil, fmt.Errorf("%s has %d bytes, at most %d are expected", name, info.Size(), most)
	}
	b := make([]byte, info.Size())
	_, err = io.ReadFull(f, b)
	return b, err
}

// write writes a content beside its place, renames it, and removes the part.
func (u *unpacker) write(c agent.Content, content []byte) error {
	beside := u.Path(c.SHA256) + host.TemporarySuffix
	file, err := u.disk.Create(beside)
	if err != nil {
		return err
	}
	if _, err := file.Write(content); err != nil {
		return errors.Join(err, file.Close(), u.disk.Remove(beside))
	}
	if err := u.disk.Finish(file, beside); err != nil {
		return err
	}
	if err := u.disk.Rename(beside, u.Path(c.SHA256)); err != nil {
		return err
	}
	return u.disk.Remove(u.part(c.SHA256))
}

func hashOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
