package hns

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Fault is what calls of Windows' API meet instead of an answer, in whichever process of the host.
type Fault struct {
	// Call is what the calls' names begin with, such as HcnCreateLoadBalancer, or "HNSCall POST /endpoints"; "" is for all calls.
	Call string
	// Code is what they return; 0 for calls that are only slow.
	Code Code
	// Delay is how long each takes before it does anything.
	Delay time.Duration
	// Times is how many calls meet it; 0 is for all until Clear.
	Times int
}

// Inject has calls meet a fault. Of several that fit a call, all are met, in the order in which they were injected.
func (s *Store) Inject(f Fault) error {
	return s.change(func(now *state) error {
		o := Object{"ID": fmt.Sprintf("%06d", len(now.objects[fault])+1), "Call": f.Call, "Code": f.Code, "Delay": f.Delay, "Times": f.Times}
		s.put(fault, o)
		return nil
	})
}

// Clear ends all faults.
func (s *Store) Clear() error { return s.Lose(fault) }

// Begin is where each call of Windows' API begins. Its error is what the call returns.
func (s *Store) Begin(call string) error {
	up, err := s.serviceRuns()
	if err != nil {
		return err
	}
	if !up {
		return fmt.Errorf("%s: %w", call, Unavailable)
	}
	delay, code, err := s.meet(call)
	if err != nil {
		return err
	}
	time.Sleep(delay)
	if code != 0 {
		return fmt.Errorf("%s: a fault that was injected: %w", call, code)
	}
	return nil
}

// meet says which faults a call meets, and counts it for them.
func (s *Store) meet(call string) (delay time.Duration, code Code, err error) {
	fits := func(o Object) bool { return o.number("Times") >= 0 && strings.HasPrefix(call, o.text("Call")) }
	some := false
	err = s.look(func(now *state) error {
		for _, o := range now.objects[fault] {
			some = some || fits(o)
		}
		return nil
	})
	if err != nil || !some {
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
					fewer["Times"] = -1 // used up; it keeps its number from those to come
				}
				s.put(fault, fewer)
			}
		}
		return nil
	})
	return delay, code, err
}

// serviceFile says that the host has the service; without it, somebody uses the calls where there is none, and they are answered.
const serviceFile = "service"

// Serve is what the service hns does: calls are answered while it does so, and with its process's end, however that ends, they are not.
func (s *Store) Serve() (stop func() error, err error) {
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the folder of networks: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(s.Dir, serviceFile), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the service's file: %w", err)
	}
	if err := lock(file, serving); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("serving the networks: %w", err)
	}
	return file.Close, nil // which unlocks
}

// serviceRuns says whether some process does what Serve does.
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
		return false, fmt.Errorf("looking for the service: %w", err)
	}
	if free {
		return false, unlock(s.service, serving)
	}
	return true, nil
}
