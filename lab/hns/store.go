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

// Store is the folder with all objects. Any number of processes may use it, each with a Store of its own, which remembers what
// it has read. It must not be copied.
type Store struct {
	// Dir is the folder.
	Dir string
	// Address is the address from which the host speaks to others; "" when nobody says.
	Address func() string
	// Changed, when set, is called after the endpoints of this host changed, before the call that did it returns.
	Changed func() error

	mu      sync.Mutex
	file    *os.File // markFile
	service *os.File // serviceFile, once it was there
	known   state
	pending []entry // what the current change has done
	told    bool    // the current change is to be told to Changed
}

// The folder has a journal, in which each object that was made, changed or removed is a line. The file "mark" says which journal it
// is and how much of it counts. So a call costs a glance at 16 bytes and what others did since, however many objects there are; a
// process that dies while it writes leaves nothing that counts.
const markFile = "mark"

type mark struct{ Journal, Size uint64 }

// Offsets in the mark's file that processes lock, far behind what is read there: Windows lets nobody read what is locked.
const (
	changing = 1 << 40 // by whoever changes an object
	serving  = 1 << 41 // by the service; see Serve
)

// entry is a line of the journal: an object as it is from then on, or that it is gone.
type entry struct {
	Kind   Kind
	ID     string
	Object Object `json:",omitempty"`
}

// compactAt is how long a journal gets before it is looked whether a new one would be much shorter.
const compactAt = 1 << 20

// Close gives back what the Store has open. It can be used again.
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

// look reads objects. What do sees is as it was at one moment, and not to be changed.
func (s *Store) look(do func(*state) error) error {
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
	// Who reads keeps nobody from writing. What was written meanwhile may confuse, where the journal changes: then, with the lock.
	if now.Journal == 0 || s.update(now) != nil {
		if err := s.locked(s.updateLocked); err != nil {
			return err
		}
	}
	return do(&s.known)
}

// change changes objects by put and remove, while no other process does: all of it, or none when do fails.
func (s *Store) change(do func(*state) error) error {
	tell, err := s.commitChange(do)
	if err == nil && tell && s.Changed != nil {
		return s.Changed()
	}
	return err
}

// commitChange says whether Changed is to be told.
func (s *Store) commitChange(do func(*state) error) (tell bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(); err != nil {
		return false, err
	}
	s.pending, s.told = nil, false
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
		s.known = state{} // some of it may be in memory
	}
	return s.told, err
}

// put writes an object. It is kept as others will read it.
func (s *Store) put(k Kind, o Object) { s.note(entry{Kind: k, ID: key(o.id()), Object: o.clone()}) }

func (s *Store) remove(k Kind, id string) { s.note(entry{Kind: k, ID: key(id)}) }

func (s *Store) note(e entry) {
	was := s.known.objects[e.Kind][e.ID]
	s.told = s.told || e.Kind == Endpoint && !slices.Equal(was.ownAddresses(), e.Object.ownAddresses())
	s.pending = append(s.pending, e)
	s.known.apply(e)
}

func (s *Store) open() error {
	if s.file != nil {
		return nil
	}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return fmt.Errorf("making the folder of networks: %w", err)
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
	if err != nil && !(errors.Is(err, io.EOF) && n == 0) {
		return mark{}, fmt.Errorf("reading the mark of networks: %w", err)
	}
	return mark{binary.LittleEndian.Uint64(raw[:8]), binary.LittleEndian.Uint64(raw[8:])}, nil
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

// updateLocked reads what was written since, and needs the lock. The first who finds no journal starts it.
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

// commit writes what a change has done.
func (s *Store) commit() error {
	if len(s.pending) == 0 {
		return nil
	}
	text, err := encodeLines(s.pending)
	if err != nil {
		return err
	}
	was := s.known.mark
	file, err := os.OpenFile(s.journal(was.Journal), os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening the journal of networks: %w", err)
	}
	_, err = file.WriteAt(text, int64(was.Size))
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("writing the journal of networks: %w", err)
	}
	now := mark{was.Journal, was.Size + uint64(len(text))}
	if now.Size/compactAt != was.Size/compactAt {
		if all, err := encodeLines(s.known.entries()); err == nil && uint64(len(all)) < now.Size/4 {
			return s.start(s.known.entries())
		}
	}
	return s.writeMark(now)
}

// start begins another journal and removes the last.
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
	_ = os.Remove(s.journal(last)) // somebody may be reading it
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

// key is the form of an ID that objects are found by.
func key(id string) string { return strings.ToUpper(strings.Trim(id, "{}")) }
