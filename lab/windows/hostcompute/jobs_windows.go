package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/lab/windows/hcs"
)

// Procedures that package windows lacks.
var (
	kernel32           = windows.NewLazySystemDLL("kernel32.dll")
	openJobObject      = kernel32.NewProc("OpenJobObjectW")
	isProcessInJob     = kernel32.NewProc("IsProcessInJob")
	createRemoteThread = kernel32.NewProc("CreateRemoteThread")
	getProcessMemory   = kernel32.NewProc("K32GetProcessMemoryInfo")
	controlRoutine     = windows.NewLazySystemDLL("kernelbase.dll").NewProc("CtrlRoutine")
)

// A job contains the processes of a compute system. It has a name, by which every process of the host finds it, and ends with its
// last handle and its last process.
type job struct {
	handle windows.Handle
	// ended is an event that is set when the compute system ends.
	ended windows.Handle
}

func jobName(id string) *uint16   { return windows.StringToUTF16Ptr(`Global\wmco-lab-` + id) }
func endedName(id string) *uint16 { return windows.StringToUTF16Ptr(`Global\wmco-lab-ended-` + id) }

// createJob creates the job of a compute system.
func createJob(s hcs.System) (job, error) {
	var j job
	var err error
	if j.handle, err = windows.CreateJobObject(nil, jobName(s.ID)); err != nil && j.handle == 0 {
		return j, fmt.Errorf("making the job of compute system %s: %w", s.ID, err)
	}
	if err == windows.ERROR_ALREADY_EXISTS {
		j.close()
		return j, hcs.AlreadyExists
	}
	if j.ended, err = windows.CreateEvent(nil, 1, 0, endedName(s.ID)); j.ended == 0 {
		j.close()
		return j, fmt.Errorf("making the event of compute system %s: %w", s.ID, err)
	}
	if !s.EndsWithHandle {
		return j, nil
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{}
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(j.handle, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err != nil {
		j.close()
		return j, fmt.Errorf("limiting the job of compute system %s: %w", s.ID, err)
	}
	return j, nil
}

// openJob opens the job of a compute system.
func openJob(id string) (job, error) {
	const allAccess = 0x1F001F
	handle, _, _ := openJobObject.Call(allAccess, 0, uintptr(unsafe.Pointer(jobName(id))))
	if handle == 0 {
		return job{}, hcs.NotFound
	}
	j := job{handle: windows.Handle(handle)}
	var err error
	if j.ended, err = windows.CreateEvent(nil, 1, 0, endedName(id)); j.ended == 0 { // opens it if it exists
		j.close()
		return job{}, fmt.Errorf("opening the event of compute system %s: %w", id, err)
	}
	return j, nil
}

func (j job) close() {
	for _, handle := range []windows.Handle{j.handle, j.ended} {
		if handle != 0 {
			_ = windows.CloseHandle(handle)
		}
	}
}

// hasEnded reports whether the compute system has ended.
func (j job) hasEnded() bool {
	state, err := windows.WaitForSingleObject(j.ended, 0)
	return err == nil && state == windows.WAIT_OBJECT_0
}

// killed is the exit code of killed processes: ERROR_PROCESS_ABORTED.
const killed = 1067

// terminate kills all processes and notifies all waiting callers.
func (j job) terminate() error {
	if err := windows.TerminateJobObject(j.handle, killed); err != nil {
		return fmt.Errorf("ending the processes: %w", err)
	}
	return windows.SetEvent(j.ended)
}

// contains reports whether a process is in the job.
func (j job) contains(process windows.Handle) bool {
	var in int32
	ok, _, _ := isProcessInJob.Call(uintptr(process), uintptr(j.handle), uintptr(unsafe.Pointer(&in)))
	return ok != 0 && in != 0
}

// usage lists the processes of the job.
func (j job) usage() []hcs.Usage {
	var list struct {
		assigned, count uint32
		pids            [1024]uintptr
	}
	const basicProcessIDs = 3
	err := windows.QueryInformationJobObject(j.handle, basicProcessIDs, uintptr(unsafe.Pointer(&list)), uint32(unsafe.Sizeof(list)), nil)
	if err != nil {
		return nil
	}
	var all []hcs.Usage
	for _, pid := range list.pids[:min(int(list.count), len(list.pids))] {
		if u, err := usageOf(uint32(pid)); err == nil {
			all = append(all, u)
		}
	}
	return all
}

func usageOf(pid uint32) (hcs.Usage, error) {
	u := hcs.Usage{PID: pid}
	process, err := windows.OpenProcess(windows.PROCESS_QUERY_INFORMATION|windows.PROCESS_VM_READ, false, pid)
	if err != nil {
		return u, err
	}
	defer windows.CloseHandle(process)
	var created, exited, kernel, user windows.Filetime // the last two are this program's own on Wine
	if err := windows.GetProcessTimes(process, &created, &exited, &kernel, &user); err != nil {
		return u, err
	}
	u.Started = time.Unix(0, created.Nanoseconds())
	var name [windows.MAX_PATH]uint16
	size := uint32(len(name))
	if err := windows.QueryFullProcessImageName(process, 0, &name[0], &size); err == nil {
		u.Image = filepath.Base(windows.UTF16ToString(name[:size]))
	}
	var memory struct { // PROCESS_MEMORY_COUNTERS
		size, faults                                                     uint32
		peakSet, set, peakPaged, paged, peakNon, non, commit, peakCommit uintptr
	}
	memory.size = uint32(unsafe.Sizeof(memory))
	if ok, _, _ := getProcessMemory.Call(uintptr(process), uintptr(unsafe.Pointer(&memory)), uintptr(memory.size)); ok != 0 {
		u.Memory = uint64(memory.set)
	}
	return u, nil
}

// isFile reports whether a path is a file.
func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}
