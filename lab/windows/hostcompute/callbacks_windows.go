package main

import "C"

import (
	"sync"
	"syscall"

	"golang.org/x/sys/windows"
)

// subscription is a registered callback.
type subscription struct {
	mu       sync.Mutex
	canceled bool
	function uintptr
	context  uintptr
	kind     uint32 // the notification
}

// subscribe calls a function once when an object is signaled: a process that exits, an event that is set. The object's handle may
// be closed meanwhile.
func subscribe(object windows.Handle, kind uint32, function, context uintptr, handle *uintptr) error {
	own, self := windows.Handle(0), windows.CurrentProcess()
	if err := windows.DuplicateHandle(self, object, self, &own, windows.SYNCHRONIZE, false, 0); err != nil {
		return err
	}
	s := &subscription{function: function, context: context, kind: kind}
	handles.add(handle, s)
	go func() {
		defer windows.CloseHandle(own)
		_, _ = windows.WaitForSingleObject(own, windows.INFINITE)
		s.call()
	}()
	return nil
}

func (s *subscription) call() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.canceled {
		_, _, _ = syscall.SyscallN(s.function, uintptr(s.kind), s.context, 0, 0)
	}
}

// unsubscribe returns when the function can no longer be called.
func unsubscribe(handle uintptr) error {
	s, err := find[*subscription](handle)
	if err != nil {
		return err
	}
	handles.remove(handle)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.canceled = true
	return nil
}

//export HcsRegisterComputeSystemCallback
func HcsRegisterComputeSystemCallback(handle uintptr, function, context uintptr, registered *uintptr) uint32 {
	return onSystem(handle, "HcsRegisterComputeSystemCallback", func(s *system) error {
		return subscribe(s.ended, systemExited, function, context, registered)
	})
}

//export HcsUnregisterComputeSystemCallback
func HcsUnregisterComputeSystemCallback(registered uintptr) uint32 {
	return result(unsubscribe(registered), "HcsUnregisterComputeSystemCallback")
}

//export HcsRegisterProcessCallback
func HcsRegisterProcessCallback(handle uintptr, function, context uintptr, registered *uintptr) uint32 {
	return onProcess(handle, "HcsRegisterProcessCallback", func(p *process) error {
		return subscribe(p.handle, processExited, function, context, registered)
	})
}

//export HcsUnregisterProcessCallback
func HcsUnregisterProcessCallback(registered uintptr) uint32 {
	return result(unsubscribe(registered), "HcsUnregisterProcessCallback")
}
