package win

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Contain adds this process to a job that kills all its processes when its last handle is closed. Only this process has a handle,
// so all processes that it starts from now on end with it.
func Contain() error {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return fmt.Errorf("creating a job object: %w", err)
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{}
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err == nil {
		err = windows.AssignProcessToJobObject(job, windows.CurrentProcess())
	}
	if err != nil {
		_ = windows.CloseHandle(job)
		return fmt.Errorf("assigning this process to a job object: %w", err)
	}
	return nil
}
