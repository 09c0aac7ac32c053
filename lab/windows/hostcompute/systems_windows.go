package main

import "C"

import (
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
	"github.com/windows-machine-config/wmco/lab/windows/hcs"
	"github.com/windows-machine-config/wmco/lab/windows/hostspec"
)

// system is a handle to a compute system.
type system struct {
	hcs.System
	job
}

func systems() hcs.Systems {
	return hcs.Systems{Dir: guestapi.ContainersDir, Alive: func(id string) bool {
		j, err := openJob(id)
		if err != nil {
			return false
		}
		defer j.close()
		return !j.hasEnded()
	}}
}

func createSystem(id, document string) (*system, error) {
	s, err := hcs.ParseDocument(id, document)
	if err != nil {
		return nil, err
	}
	s.Root, s.Created = layers().Folder(s.Root), time.Now()
	if err := changeDrive(guestapi.Drive{Root: s.Root, Mounts: s.Mounts, Host: s.Host, Namespace: s.Namespace, Limits: s.Limits}); err != nil {
		return nil, fmt.Errorf("creating the drive of compute system %s: %w", id, err)
	}
	j, err := createJob(s)
	if err != nil {
		return nil, err
	}
	if err := systems().Put(s); err != nil {
		j.close()
		return nil, err
	}
	return &system{System: s, job: j}, nil
}

func openSystem(id string) (*system, error) {
	s, err := systems().Get(id)
	if err != nil {
		return nil, err
	}
	j, err := openJob(id)
	return &system{System: s, job: j}, err
}

// end ends a compute system at once.
func (s *system) end() error {
	if s.hasEnded() {
		return hcs.AlreadyStopped
	}
	if err := s.terminate(); err != nil {
		return err
	}
	return systems().Remove(s.ID)
}

// processorTime reads a cgroup of the machine. Programs on Wine can open files outside of their drives by paths below \\?\unix.
func (s *system) processorTime() (hcs.ProcessorTime, error) {
	drive := hostspec.Drives + "/" + filepath.Base(s.Root)
	return hcs.ReadProcessorTime(`\\?\unix` + filepath.FromSlash(drive+"/"+hostspec.Accounting))
}

// Notifications of callers (see hcsshim).
const (
	systemExited  = 1
	processExited = 0x10000
)

//export HcsEnumerateComputeSystems
func HcsEnumerateComputeSystems(query *uint16, list, details **uint16) uint32 {
	found, err := systems().List(text(query))
	setText(list, found)
	return result(err, "HcsEnumerateComputeSystems %s", text(query))
}

//export HcsCreateComputeSystem
func HcsCreateComputeSystem(id, document *uint16, identity uintptr, handle *uintptr, details **uint16) uint32 {
	s, err := createSystem(text(id), text(document))
	if err == nil {
		handles.add(handle, s)
	}
	return result(err, "HcsCreateComputeSystem %s %s", text(id), text(document))
}

//export HcsOpenComputeSystem
func HcsOpenComputeSystem(id *uint16, handle *uintptr, details **uint16) uint32 {
	s, err := openSystem(text(id))
	if err == nil {
		handles.add(handle, s)
	}
	return result(err, "HcsOpenComputeSystem %s", text(id))
}

//export HcsCloseComputeSystem
func HcsCloseComputeSystem(handle uintptr) uint32 {
	s, err := find[*system](handle)
	if err == nil {
		handles.remove(handle)
		s.close()
	}
	return result(err, "HcsCloseComputeSystem")
}

// onSystem runs a call on a compute system.
func onSystem(handle uintptr, name string, do func(*system) error) uint32 {
	s, err := find[*system](handle)
	if err != nil {
		return result(err, "%s", name)
	}
	return result(do(s), "%s %s", name, s.ID)
}

//export HcsStartComputeSystem
func HcsStartComputeSystem(handle uintptr, options *uint16, details **uint16) uint32 {
	return onSystem(handle, "HcsStartComputeSystem", func(s *system) error {
		s.Started = true
		return systems().Put(s.System)
	})
}

// HcsShutdownComputeSystem ends a compute system. Its caller has signaled the processes before.
//
//export HcsShutdownComputeSystem
func HcsShutdownComputeSystem(handle uintptr, options *uint16, details **uint16) uint32 {
	return onSystem(handle, "HcsShutdownComputeSystem", (*system).end)
}

//export HcsTerminateComputeSystem
func HcsTerminateComputeSystem(handle uintptr, options *uint16, details **uint16) uint32 {
	return onSystem(handle, "HcsTerminateComputeSystem", (*system).end)
}

//export HcsGetComputeSystemProperties
func HcsGetComputeSystemProperties(handle uintptr, query *uint16, properties, details **uint16) uint32 {
	s, err := find[*system](handle)
	if err == nil && s.hasEnded() {
		err = hcs.AlreadyStopped
	}
	var worked hcs.ProcessorTime
	if err == nil {
		worked, err = s.processorTime()
	}
	if err == nil {
		var all string
		all, err = s.Properties(time.Now(), worked, s.usage())
		setText(properties, all)
	}
	if err != nil {
		return result(err, "HcsGetComputeSystemProperties %s", text(query))
	}
	return 0
}

// HcsModifyComputeSystem succeeds without an effect: the limits of a compute system (memory, processors) are not enforced here.
//
//export HcsModifyComputeSystem
func HcsModifyComputeSystem(handle uintptr, request *uint16, details **uint16) uint32 {
	return onSystem(handle, "HcsModifyComputeSystem "+text(request), func(*system) error { return nil })
}

//export HcsModifyServiceSettings
func HcsModifyServiceSettings(settings *uint16, details **uint16) uint32 { return 0 }

//export HcsGetServiceProperties
func HcsGetServiceProperties(query *uint16, properties, details **uint16) uint32 {
	setText(properties, fmt.Sprintf(`{"Properties":[{"SupportedSchemaVersions":[{"Major":1,"Minor":0},{"Major":2,"Minor":1}],"LogicalProcessorCount":%d}]}`, runtime.NumCPU()))
	return 0
}
