package hcs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ProcessorTime is how long processors have worked for the processes of a compute system, with those that have ended.
type ProcessorTime struct{ User, Kernel time.Duration }

// ReadProcessorTime reads the time from the folder of a cgroup, because Wine gives a process only its own time. Without the folder, nothing was
// counted.
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
