package scm

import (
	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

// watched is a service of a watcher.
type watched struct {
	name   string
	handle windows.Handle // 0 when the service is absent
	// subscribed is true while Windows writes to notice when the service changes. A notice that was under way when
	// its handle was closed may still come: the memory stays the same for the whole watch.
	subscribed bool
	notice     windows.SERVICE_NOTIFY
	// key is open while Windows sets the event edited when a value of the service's registry key changes; 0 otherwise.
	key    registry.Key
	edited windows.Handle
	// missed is true when the key was closed after an edit that nobody was told of.
	missed bool
	// process ends without a notice from Wine's SCM; that of Windows takes a moment longer to tell.
	process Process
	seen    uint32 // SERVICE_*, 0 when absent
	pid     uint32
}

func (s *watched) look(m Manager, wake uintptr) (changed bool) {
	if s.isSignalled() {
		s.closeKey()
	}
	edited := s.missed
	s.missed = false
	if s.subscribed && s.notice.NotificationStatus != pending {
		s.subscribed = false
		deleted := s.notice.NotificationTriggered&windows.SERVICE_NOTIFY_DELETE_PENDING != 0
		if deleted || s.notice.NotificationStatus != 0 {
			s.close() // an open handle would keep it from going; a client that lags must open it anew
		}
	}
	if s.process.Handle != 0 && s.process.Ended() {
		s.process.Close()
		s.process = Process{}
	}
	if s.handle == 0 {
		svc, err := m.Open(s.name, windows.SERVICE_QUERY_STATUS)
		if err != nil {
			return s.now(0, 0) || edited
		}
		s.handle = svc.Handle
	}
	s.subscribe(wake)
	status, err := Service{s.handle}.Status()
	if !s.subscribed || err != nil {
		s.close()
	}
	if err != nil {
		return s.now(0, 0) || edited
	}
	return s.now(status.CurrentState, status.ProcessId) || edited
}

// now remembers what a service is and tells whether that is new.
func (s *watched) now(state, pid uint32) (changed bool) {
	changed = s.seen != state || s.pid != pid
	s.seen, s.pid = state, pid
	return changed
}

func (s *watched) isSignalled() bool {
	event, err := windows.WaitForSingleObject(s.edited, 0)
	return err == nil && event == windows.WAIT_OBJECT_0
}

// subscribe asks to be told of the next change, in each way that is not asked for yet. Where that fails (the service is
// being deleted) the service is looked at from time to time.
func (s *watched) subscribe(wake uintptr) {
	const mask = windows.SERVICE_NOTIFY_STOPPED | windows.SERVICE_NOTIFY_START_PENDING | windows.SERVICE_NOTIFY_STOP_PENDING |
		windows.SERVICE_NOTIFY_RUNNING | windows.SERVICE_NOTIFY_CONTINUE_PENDING | windows.SERVICE_NOTIFY_PAUSE_PENDING |
		windows.SERVICE_NOTIFY_PAUSED | windows.SERVICE_NOTIFY_DELETE_PENDING
	if !s.subscribed {
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
		s.process, _ = Service{s.handle}.Process() // without it, the SCM's notice comes
	}
}

// openKey asks for a signal when a value of the service's key changes. The key is opened anew each time: one that was
// deleted, and made again, is another.
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
	_ = s.key.Close() // which sets the event
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
