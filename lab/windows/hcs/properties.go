package hcs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// container is the type of all compute systems here.
const container = "Container"

// Usage has the resources of a process of a compute system.
type Usage struct {
	PID     uint32
	Image   string
	Started time.Time
	Memory  uint64 // bytes
}

// Properties formats the properties of a compute system, for schema 1 and 2.
func (s System) Properties(now time.Time, worked ProcessorTime, running []Usage) (string, error) {
	p := s.properties()
	var memory uint64
	list := []map[string]any{}
	for _, u := range running {
		memory += u.Memory
		list = append(list, map[string]any{
			"ProcessId": u.PID, "ImageName": u.Image, "CreateTimestamp": u.Started, "MemoryWorkingSetPrivateBytes": u.Memory,
		})
	}
	p["ProcessList"] = list
	p["Statistics"] = map[string]any{
		"Timestamp": now, "ContainerStartTime": s.Created, "Uptime100ns": ticks(now.Sub(s.Created)),
		"Processor": map[string]int64{
			"TotalRuntime100ns": ticks(worked.User + worked.Kernel), "RuntimeUser100ns": ticks(worked.User), "RuntimeKernel100ns": ticks(worked.Kernel),
		},
		"Memory":  map[string]uint64{"MemoryUsageCommitBytes": memory, "MemoryUsageCommitPeakBytes": memory, "MemoryUsagePrivateWorkingSetBytes": memory},
		"Storage": map[string]int64{},
	}
	raw, err := json.Marshal(p)
	return string(raw), err
}

func (s System) properties() map[string]any {
	state := "Created"
	if s.Started {
		state = "Running"
	}
	return map[string]any{"Id": s.ID, "Name": s.ID, "SystemType": container, "RuntimeOsType": "Windows", "Owner": s.Owner, "State": state}
}

// ticks returns a duration in Windows' unit of 100 ns.
func ticks(d time.Duration) int64 { return int64(d / 100) }

// ProcessStatus formats the properties of a process.
func ProcessStatus(pid uint32, exited bool, code uint32) (string, error) {
	raw, err := json.Marshal(map[string]any{"ProcessId": pid, "Exited": exited, "ExitCode": code, "LastWaitResult": 0})
	return string(raw), err
}

// ProcessorTime is the processor time of all processes of a compute system, including those that have exited.
type ProcessorTime struct{ User, Kernel time.Duration }

// ReadProcessorTime reads the time from the folder of a cgroup, because Wine reports only the caller's own time. Without the
// folder, the time is 0.
func ReadProcessorTime(folder string) (all ProcessorTime, err error) {
	for file, to := range map[string]*time.Duration{"cpuacct.usage_user": &all.User, "cpuacct.usage_sys": &all.Kernel} {
		text, err := os.ReadFile(filepath.Join(folder, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return all, fmt.Errorf("reading the processor time: %w", err)
		}
		nanoseconds, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			return all, fmt.Errorf("reading the processor time: %w", err)
		}
		*to = time.Duration(nanoseconds)
	}
	return all, nil
}
