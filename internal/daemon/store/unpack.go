package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/host"
	"github.com/windows-machine-config/wmco/payload/compress"
)

// unpacker turns parts that are complete into contents, one after the other. While one is written, the next is decompressed.
type unpacker struct {
	Store
	// last is the dictionary of the content before, of which name is the hash: most contents have the same.
	last compress.Dictionary
	name string
	// writing is what is being written.
	writing *writing
	errs    []error
}

// writing is a content on its way to the disk.
type writing struct {
	sha256  string
	content []byte
	done    chan error
}

// unpack turns a part into the content. A part that does not give the content is thrown away. Finish tells the error.
func (u *unpacker) unpack(c agent.Content) {
	content, err := u.content(c)
	u.wait()
	if err != nil {
		u.fail(c, err)
		return
	}
	w := &writing{c.SHA256, content, make(chan error, 1)}
	go func() { w.done <- u.write(c, content) }()
	u.writing = w
}

// finish returns when everything is written, with what went wrong.
func (u *unpacker) finish() error {
	u.wait()
	return errors.Join(u.errs...)
}

// wait returns when what is being written is on the disk. It returns its content, which nobody else uses, or nil.
func (u *unpacker) wait() []byte {
	w := u.writing
	if w == nil {
		return nil
	}
	u.writing = nil
	if err := <-w.done; err != nil {
		u.errs = append(u.errs, fmt.Errorf("unpacking content %.12s: %w", w.sha256, err))
		return nil
	}
	return w.content
}

// fail takes note of why a part did not become a content.
func (u *unpacker) fail(c agent.Content, err error) {
	if !errors.Is(err, errAltered) {
		u.errs = append(u.errs, fmt.Errorf("unpacking content %.12s: %w", c.SHA256, err))
		return
	}
	u.errs = append(u.errs, &agent.Error{
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
	if c.Dictionary != u.name {
		u.last, u.name = compress.Dictionary{}, ""
	}
	if c.Size >= largeBytes {
		debug.FreeOSMemory()
	}
	dictionary, err := u.dictionary(c.Dictionary)
	if err != nil {
		return nil, err
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

// dictionary is the content with a hash, as a dictionary; the zero one for none. It is verified, as the part would be to blame for
// what is wrong with its dictionary.
func (u *unpacker) dictionary(name string) (compress.Dictionary, error) {
	if name == u.name {
		return u.last, nil
	}
	if u.writing != nil && u.writing.sha256 == name {
		if program := u.wait(); program != nil { // it is verified
			u.last, u.name = compress.NewDictionary(program), name
			return u.last, nil
		}
	}
	program, err := u.read(u.Path(name), compress.MaxSize)
	if err != nil {
		return u.last, fmt.Errorf("reading its dictionary: %w", err)
	}
	if sum := hashOf(program); sum != name {
		return u.last, fmt.Errorf("its dictionary, content %.12s, has SHA-256 %s", name, sum)
	}
	u.last, u.name = compress.NewDictionary(program), name
	return u.last, nil
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
