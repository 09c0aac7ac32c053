package hns

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Fault makes calls of Windows' API fail or slow, in every process of the host.
type Fault struct {
	// Call is a prefix of the names of affected calls, such as HcnCreateLoadBalancer, or "HNSCall GET /endpoints". "" affects
	// all calls.
	Call string
	// Code is the error code that the calls return. 0 only delays them.
	Code Code
	// Delay is the time for which each call is delayed.
	Delay time.Duration
	// Times is the number of affected calls. 0 affects all calls until the next boot.
	Times int
}

// Inject adds a fault. If several match a call, all apply, in the order of their injection.
func (s *Store) Inject(f Fault) error {
	return s.change(func(now *state) error {
		o := Object{"ID": fmt.Sprintf("%06d", len(now.objects[fault])+1), "Call": f.Call, "Code": f.Code, "Delay": f.Delay, "Times": f.Times}
		s.put(fault, o)
		return nil
	})
}

// Begin must be called at the beginning of each call of Windows' API, which then returns its error.
func (s *Store) Begin(call string) error {
	up, err := s.serviceRuns()
	if err != nil {
		return err
	}
	if !up {
		return fmt.Errorf("%s: %w", call, Unavailable)
	}
	delay, code, err := s.matchFaults(call)
	if err != nil {
		return err
	}
	time.Sleep(delay)
	if code != 0 {
		return fmt.Errorf("%s: injected fault: %w", call, code)
	}
	return nil
}

// matchFaults returns the faults that apply to a call, and counts the call for them.
func (s *Store) matchFaults(call string) (delay time.Duration, code Code, err error) {
	fits := func(o Object) bool { return o.number("Times") >= 0 && strings.HasPrefix(call, o.text("Call")) }
	found := false
	err = s.view(func(now *state) error {
		for _, o := range now.objects[fault] {
			found = found || fits(o)
		}
		return nil
	})
	if err != nil || !found {
		return 0, 0, err
	}
	err = s.change(func(now *state) error {
		for _, o := range now.list(fault, nil) {
			if !fits(o) {
				continue
			}
			delay += time.Duration(o.number("Delay"))
			if code == 0 {
				code = Code(o.number("Code"))
			}
			if left := o.number("Times"); left > 0 {
				fewer := o.clone()
				if fewer["Times"] = left - 1; left == 1 {
					fewer["Times"] = -1 // used up; it stays in the list to keep the numbers of later faults
				}
				s.put(fault, fewer)
			}
		}
		return nil
	})
	return delay, code, err
}

// serviceFile exists if the host has the service. Without it, calls are answered without the service.
const serviceFile = "service"

// Serve runs the service hns: calls are answered until the returned function is called or the process ends.
func (s *Store) Serve() (stop func() error, err error) {
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("creating the folder of networks: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(s.Dir, serviceFile), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the service's file: %w", err)
	}
	if err := lock(file, serving); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("serving the networks: %w", err)
	}
	now := time.Now()
	if err := os.Chtimes(file.Name(), now, now); err != nil { // see Quirks.ListsLate
		return nil, errors.Join(fmt.Errorf("noting the start of the service: %w", err), file.Close())
	}
	return file.Close, nil // closing unlocks
}

// serviceRuns reports whether a process is in Serve.
func (s *Store) serviceRuns() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.service == nil {
		file, err := os.OpenFile(filepath.Join(s.Dir, serviceFile), os.O_RDWR, 0)
		if os.IsNotExist(err) {
			return true, nil
		}
		if err != nil {
			return false, fmt.Errorf("opening the service's file: %w", err)
		}
		s.service = file
	}
	free, err := tryLock(s.service, serving)
	if err != nil {
		return false, fmt.Errorf("checking for the service: %w", err)
	}
	if free {
		return false, unlock(s.service, serving)
	}
	return true, nil
}
