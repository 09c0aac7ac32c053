package scm

import (
	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

// watched is a service of a watcher.
type watched struct {
	name   string
	handle windows.Handle // 0 if the service does not exist
	// polled is true if Windows must not write to notice.
	polled bool
	// subscribed is true while Windows writes to notice when the service changes. A notification can arrive after its handle was
	// closed: Changes keeps the memory.
	subscribed bool
	notice     windows.SERVICE_NOTIFY
	// key is open while Windows sets the event edited when a value of the service's registry key changes; 0 otherwise.
	key    registry.Key
	edited windows.Handle
	// missed is true if the key was closed after an unreported edit.
	missed bool
	// process: Wine's SCM does not notify of its exit, Windows' does a moment later.
	process Process
	seen    uint32 // SERVICE_*, 0 when absent
	pid     uint32
}

func (s *watched) refresh(m Manager, wake uintptr) (changed bool) {
	if s.isSignalled() {
		s.closeKey()
	}
	edited := s.missed
	s.missed = false
	if s.subscribed && s.notice.NotificationStatus != pending {
		s.subscribed = false
		deleted := s.notice.NotificationTriggered&windows.SERVICE_NOTIFY_DELETE_PENDING != 0
		if deleted || s.notice.NotificationStatus != 0 {
			s.close() // an open handle would delay the deletion; a client that lags must open it again
		}
	}
	if s.process.Handle != 0 && s.process.Ended() {
		s.process.Close()
		s.process = Process{}
	}
	if s.handle == 0 {
		svc, err := m.Open(s.name, windows.SERVICE_QUERY_STATUS)
		if err != nil {
			return s.update(0, 0) || edited
		}
		s.handle = svc.Handle
	}
	s.subscribe(wake)
	status, err := Service{s.handle}.Status()
	if !s.subscribed && !s.polled || err != nil {
		s.close()
	}
	if err != nil {
		return s.update(0, 0) || edited
	}
	return s.update(status.CurrentState, status.ProcessId) || edited
}

// update stores the state of a service and reports whether it has changed.
func (s *watched) update(state, pid uint32) (changed bool) {
	changed = s.seen != state || s.pid != pid
	s.seen, s.pid = state, pid
	return changed
}

func (s *watched) isSignalled() bool {
	event, err := windows.WaitForSingleObject(s.edited, 0)
	return err == nil && event == windows.WAIT_OBJECT_0
}

// subscribe registers for the next change, in each way that is not registered yet. If that fails (the service is being deleted),
// the service is polled.
func (s *watched) subscribe(wake uintptr) {
	const mask = windows.SERVICE_NOTIFY_STOPPED | windows.SERVICE_NOTIFY_START_PENDING | windows.SERVICE_NOTIFY_STOP_PENDING |
		windows.SERVICE_NOTIFY_RUNNING | windows.SERVICE_NOTIFY_CONTINUE_PENDING | windows.SERVICE_NOTIFY_PAUSE_PENDING |
		windows.SERVICE_NOTIFY_PAUSED | windows.SERVICE_NOTIFY_DELETE_PENDING
	if !s.subscribed && !s.polled {
		s.notice = windows.SERVICE_NOTIFY{
			Version:            windows.SERVICE_NOTIFY_STATUS_CHANGE,
			NotifyCallback:     wake,
			NotificationStatus: pending,
		}
		s.subscribed = windows.NotifyServiceStatusChange(s.handle, mask, &s.notice) == nil
	}
	if s.key == 0 {
		s.openKey()
	}
	if s.process.Handle == 0 {
		s.process, _ = Service{s.handle}.Process() // if this fails, the SCM's notification arrives
	}
}

// openKey registers for the next change of a value of the service's key. It opens the key each time, because it may have been
// deleted and created again.
func (s *watched) openKey() {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, ServicesKey+s.name, registry.NOTIFY|registry.WOW64_64KEY)
	if err != nil {
		return
	}
	const what = windows.REG_NOTIFY_CHANGE_LAST_SET | windows.REG_NOTIFY_CHANGE_NAME
	if err := windows.RegNotifyChangeKeyValue(windows.Handle(key), false, what, s.edited, true); err != nil {
		_ = key.Close()
		return
	}
	s.key = key
}

func (s *watched) closeKey() {
	if s.key == 0 {
		return
	}
	s.missed = s.missed || s.isSignalled()
	_ = s.key.Close() // this sets the event
	_ = windows.ResetEvent(s.edited)
	s.key = 0
}

func (s *watched) close() {
	if s.handle != 0 {
		_ = windows.CloseServiceHandle(s.handle)
	}
	s.handle, s.subscribed = 0, false
	s.closeKey()
	s.process.Close()
	s.process = Process{}
}
