package main

import (
	"syscall"
	"time"
)

// processorTime returns the CPU time of this process.
func processorTime() (time.Duration, error) {
	self, err := syscall.GetCurrentProcess()
	if err != nil {
		return 0, err
	}
	var created, exited, kernel, user syscall.Filetime
	err = syscall.GetProcessTimes(self, &created, &exited, &kernel, &user)
	return span(kernel) + span(user), err
}

func span(t syscall.Filetime) time.Duration {
	return 100 * time.Duration(int64(t.HighDateTime)<<32|int64(t.LowDateTime))
}
