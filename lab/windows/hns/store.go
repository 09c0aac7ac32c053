package hns

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Store is the folder with all objects. Any number of processes can use it, each with its own Store, which caches the objects. It
// must not be copied.
type Store struct {
	// Dir is the folder.
	Dir string
	// Address returns the host's address, or "" if it is unknown.
	Address func() string
	// Changed, if set, is called after local endpoints were added, removed or moved to another namespace, or their ACLs changed,
	// before the call that changed them returns.
	Changed func() error

	mu      sync.Mutex
	file    *os.File // markFile
	service *os.File // serviceFile, if it exists
	known   state
	pending []entry // the entries of the current change
	notify  bool    // Changed must be called for the current change
}

// The folder has a journal with a line for each created, changed or removed object. The file "mark" has the journal's number and
// its valid length. A call therefore reads only 16 bytes and the changes by other processes, however many objects there are, and a
// process that dies while it writes leaves the store unchanged.
const markFile = "mark"

type mark struct{ Journal, Size uint64 }

// Offsets that processes lock in the mark's file, far behind its content: Windows denies reads of locked bytes.
const (
	changing = 1 << 40 // during a change
	serving  = 1 << 41 // by the service; see Serve
)

// entry is a line of the journal: the new state of an object, or that it was removed.
type entry struct {
	Kind   Kind
	ID     string
	Object Object `json:",omitempty"`
}

// compactAt is the length of a journal at which a new one is considered.
const compactAt = 1 << 20

// Close closes the files of the Store. It can be used again.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var failures error
	for _, file := range []*os.File{s.file, s.service} {
		if file != nil {
			failures = errors.Join(failures, file.Close())
		}
	}
	s.file, s.service, s.known = nil, nil, state{}
	return failures
}

// view calls do with all objects at one moment. It must not change them.
func (s *Store) view(do func(*state) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(); err != nil {
		return err
	}
	now, err := s.readMark()
	if err != nil {
		return err
	}
	if now == s.known.mark && now.Journal != 0 {
		return do(&s.known)
	}
	// Reading does not lock. If the journal changes meanwhile, read again with the lock.
	if now.Journal == 0 || s.update(now) != nil {
		if err := s.locked(s.updateLocked); err != nil {
			return err
		}
	}
	return do(&s.known)
}

// change changes objects by put and remove, and excludes other processes. If do fails, nothing is changed.
func (s *Store) change(do func(*state) error) error {
	notify, err := s.commitChange(do)
	if err == nil && notify && s.Changed != nil {
		return s.Changed()
	}
	return err
}

// commitChange reports whether Changed must be called.
func (s *Store) commitChange(do func(*state) error) (notify bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(); err != nil {
		return false, err
	}
	s.pending, s.notify = nil, false
	err = s.locked(func() error {
		if err := s.updateLocked(); err != nil {
			return err
		}
		if err := do(&s.known); err != nil {
			return err
		}
		return s.commit()
	})
	if err != nil {
		s.known = state{} // it may have some of the changes
	}
	return s.notify, err
}

// put writes an object. It is stored as other processes will read it.
func (s *Store) put(k Kind, o Object) { s.record(entry{Kind: k, ID: Key(o.id()), Object: o.clone()}) }

func (s *Store) remove(k Kind, id string) { s.record(entry{Kind: k, ID: Key(id)}) }

func (s *Store) record(e entry) {
	before := s.known.objects[e.Kind][e.ID]
	s.notify = s.notify || e.Kind == Endpoint && (!slices.Equal(before.ownAddresses(), e.Object.ownAddresses()) || before.compartment() != e.Object.compartment() ||
		before.aclText() != e.Object.aclText())
	s.pending = append(s.pending, e)
	s.known.apply(e)
}

func (s *Store) open() error {
	if s.file != nil {
		return nil
	}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return fmt.Errorf("creating the folder of networks: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(s.Dir, markFile), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return fmt.Errorf("opening the networks: %w", err)
	}
	s.file = file
	return nil
}

// locked runs a function while no other process changes anything.
func (s *Store) locked(do func() error) error {
	if err := lock(s.file, changing); err != nil {
		return fmt.Errorf("locking the networks: %w", err)
	}
	return errors.Join(do(), unlock(s.file, changing))
}

func (s *Store) readMark() (mark, error) {
	var raw [16]byte
	n, err := s.file.ReadAt(raw[:], 0)
	if err != nil && (!errors.Is(err, io.EOF) || n > 0) {
		return mark{}, fmt.Errorf("reading the mark of networks: %w", err)
	}
	return mark{binary.LittleEndian.Uint64(raw[:8]), binary.LittleEndian.Uint64(raw[8:])}, nil
}

// Revision returns a text that changes with every change of an object.
func (s *Store) Revision() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(); err != nil {
		return "", err
	}
	now, err := s.readMark()
	return fmt.Sprint(now), err
}

func (s *Store) writeMark(m mark) error {
	var raw [16]byte
	binary.LittleEndian.PutUint64(raw[:8], m.Journal)
	binary.LittleEndian.PutUint64(raw[8:], m.Size)
	if _, err := s.file.WriteAt(raw[:], 0); err != nil {
		return fmt.Errorf("writing the mark of networks: %w", err)
	}
	s.known.mark = m
	return nil
}

func (s *Store) journal(number uint64) string {
	return filepath.Join(s.Dir, fmt.Sprintf("journal-%d.jsonl", number))
}

// updateLocked reads new entries; it needs the lock. If there is no journal, it starts one.
func (s *Store) updateLocked() error {
	now, err := s.readMark()
	if err != nil {
		return err
	}
	if now.Journal == 0 {
		s.known = newState()
		return s.start([]entry{hostDefault()})
	}
	if now == s.known.mark {
		return nil
	}
	return s.update(now)
}

// update reads the journal up to a mark.
func (s *Store) update(now mark) error {
	from := s.known.mark
	if from.Journal != now.Journal || from.Size > now.Size {
		s.known = newState()
		from = mark{now.Journal, 0}
	}
	file, err := os.Open(s.journal(now.Journal))
	if err != nil {
		return fmt.Errorf("opening the journal of networks: %w", err)
	}
	defer file.Close()
	lines := json.NewDecoder(io.NewSectionReader(file, int64(from.Size), int64(now.Size-from.Size)))
	for {
		var e entry
		err := lines.Decode(&e)
		if errors.Is(err, io.EOF) && lines.InputOffset() >= int64(now.Size-from.Size)-1 {
			s.known.mark = now
			return nil
		}
		if err != nil {
			s.known = state{}
			return fmt.Errorf("reading the journal of networks: %w", err)
		}
		s.known.apply(e)
	}
}

// commit writes the entries of a change.
func (s *Store) commit() error {
	if len(s.pending) == 0 {
		return nil
	}
	text, err := encodeLines(s.pending)
	if err != nil {
		return err
	}
	before := s.known.mark
	file, err := os.OpenFile(s.journal(before.Journal), os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening the journal of networks: %w", err)
	}
	_, err = file.WriteAt(text, int64(before.Size))
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("writing the journal of networks: %w", err)
	}
	now := mark{before.Journal, before.Size + uint64(len(text))}
	if now.Size/compactAt != before.Size/compactAt {
		if all, err := encodeLines(s.known.entries()); err == nil && uint64(len(all)) < now.Size/4 {
			return s.start(s.known.entries())
		}
	}
	return s.writeMark(now)
}

// start starts another journal and removes the last.
func (s *Store) start(entries []entry) error {
	last := s.known.mark.Journal
	text, err := encodeLines(entries)
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.journal(last+1), text, 0o644); err != nil {
		return fmt.Errorf("writing a journal of networks: %w", err)
	}
	s.known = newState()
	for _, e := range entries {
		s.known.apply(e)
	}
	if err := s.writeMark(mark{last + 1, uint64(len(text))}); err != nil {
		return err
	}
	_ = os.Remove(s.journal(last)) // another process may be reading it
	return nil
}

func encodeLines(entries []entry) ([]byte, error) {
	var text bytes.Buffer
	for _, e := range entries {
		if err := json.NewEncoder(&text).Encode(e); err != nil {
			return nil, fmt.Errorf("encoding %s %s: %w", e.Kind, e.ID, err)
		}
	}
	return text.Bytes(), nil
}

// Key returns the form of an ID in which IDs are compared.
func Key(id string) string { return strings.ToUpper(strings.Trim(id, "{}")) }
