package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/payload/compress"
)

// unpacker turns complete parts into contents, up to two at a time: each needs a processor, and the memory for a program and its dictionary.
type unpacker struct {
	Store
	slots   chan struct{}
	running sync.WaitGroup
	// started are the contents that are being unpacked, by hash; order has them in the order of arrival.
	started map[string]*unpacking
	order   []*unpacking
	// related are the contents with which others are compressed, by hash.
	related map[string]*related
}

// unpacking is one content being unpacked.
type unpacking struct {
	// done is closed when the content is on the disk, or failed with err.
	done chan struct{}
	err  error
}

// newUnpacker returns an unpacker for contents that arrive in this order.
func newUnpacker(s Store, list []wicdapi.Content) *unpacker {
	u := &unpacker{Store: s, slots: make(chan struct{}, min(2, runtime.GOMAXPROCS(0))), started: map[string]*unpacking{}, related: map[string]*related{}}
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

// start unpacks a part. An altered part is discarded. Errors are returned by finish.
func (u *unpacker) start(c wicdapi.Content) {
	p := &unpacking{done: make(chan struct{})}
	u.started[c.SHA256], u.order = p, append(u.order, p)
	before := u.started[c.Dictionary] // nil if the host has it, or there is none
	u.running.Go(func() {
		defer close(p.done)
		if before != nil {
			<-before.done // before taking a slot, because the other one needs it
		}
		u.slots <- struct{}{}
		defer func() { <-u.slots }()
		if err := u.unpack(c); err != nil {
			p.err = u.failure(c, err)
		}
	})
}

// finish waits until everything is written, and returns the errors.
func (u *unpacker) finish() error {
	u.running.Wait()
	var errs []error
	for _, p := range u.order {
		errs = append(errs, p.err)
	}
	return errors.Join(errs...)
}

func (u *unpacker) unpack(c wicdapi.Content) error {
	content, err := u.content(c)
	if err != nil {
		return err
	}
	if err := u.write(c, content); err != nil {
		return err
	}
	if r := u.related[c.SHA256]; r != nil {
		r.set(content)
	}
	return nil
}

// failure returns why a part did not become a content.
func (u *unpacker) failure(c wicdapi.Content, err error) error {
	if !errors.Is(err, errAltered) {
		return fmt.Errorf("unpacking content %.12s: %w", c.SHA256, err)
	}
	return errors.Join(&wicdapi.Error{
		Code:    wicdapi.CodeContentAltered,
		Message: fmt.Sprintf("content %.12s does not match what was sent: %v; it was discarded and must be sent again", c.SHA256, err),
	}, u.disk.Remove(u.part(c.SHA256)))
}

// errAltered is the class of errors that are caused by the bytes.
var errAltered = errors.New("altered")

// largeBytes is the size from which the memory of previous contents is released first: a kubelet, its dictionary and what was in memory before
// would need twice as much.
const largeBytes = 1 << 20

// content decompresses and verifies a part.
func (u *unpacker) content(c wicdapi.Content) ([]byte, error) {
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
	frame, err := u.disk.ReadAtMost(u.part(c.SHA256), c.CompressedSize)
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

// verified reads and verifies a dictionary from the store, because otherwise its errors would be attributed to the part.
func (u *unpacker) verified(name string) ([]byte, error) {
	program, err := u.disk.ReadAtMost(u.Path(name), compress.MaxSize)
	if err != nil {
		return nil, fmt.Errorf("reading its dictionary: %w", err)
	}
	if sum := hashOf(program); sum != name {
		return nil, fmt.Errorf("its dictionary, content %.12s, has SHA-256 %s", name, sum)
	}
	return program, nil
}

// related is a content with which others are compressed. It is in memory from its first use to its last.
type related struct {
	mu         sync.Mutex
	users      int
	loaded     bool
	dictionary compress.Dictionary
}

// set stores the content, which was just written, for its users. The caller must not use its bytes afterwards.
func (r *related) set(content []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dictionary, r.loaded = compress.NewDictionary(content), true
}

// use returns the dictionary, and loads it if necessary. Call release after a successful use.
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

// write writes a content to a temporary file, renames it, and removes the part.
func (u *unpacker) write(c wicdapi.Content, content []byte) error {
	temporary := u.Path(c.SHA256) + hostapi.TemporarySuffix
	file, err := u.disk.Create(temporary)
	if err != nil {
		return err
	}
	if _, err := file.Write(content); err != nil {
		return errors.Join(err, file.Close(), u.disk.Remove(temporary))
	}
	if err := u.disk.Finish(file, temporary); err != nil {
		return err
	}
	if err := u.disk.Rename(temporary, u.Path(c.SHA256)); err != nil {
		return err
	}
	return u.disk.Remove(u.part(c.SHA256))
}

func hashOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
