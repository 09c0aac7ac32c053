package acceptance

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// inTheService returns a session while the temporary service runs.
func inTheService(t *testing.T, c *computer) *session {
	t.Helper()
	m := c.machine()
	if _, err := m.Host.Rights.MakeFolder(Root, hostapi.Private); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Host.Disk.MakeFolder(serviceFolder); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, m.Host.Disk.Local(serviceProgram), "")
	mustPut(t, &m, desired.Service{Name: ServiceName, Description: "of a run", Command: serviceProgram})
	if err := m.Host.Services.Start(t.Context(), ServiceName); err != nil {
		t.Fatal(err)
	}
	return &session{Machine: m, out: io.Discard}
}

// TestKilledServiceEndsFollow: its result will never be written.
func TestKilledServiceEndsFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newComputer(t)
		defer c.PowerOff()
		s := inTheService(t, c)
		time.AfterFunc(time.Minute, func() { c.Crash(ServiceName) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := s.follow(ctx); !errors.Is(err, errKilled) {
			t.Errorf("unexpected error: %v", err)
		}
	})
}

// TestFollowWaitsForRestartOfWindows covers the time between the end of the service and the restart.
func TestFollowWaitsForRestartOfWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newComputer(t)
		defer c.PowerOff()
		s := inTheService(t, c)
		if _, err := s.Host.Disk.WriteFile(resumeFile, "{}"); err != nil {
			t.Fatal(err)
		}
		c.Crash(ServiceName)
		time.AfterFunc(10*time.Minute, func() {
			if _, err := s.Host.Disk.WriteFile(resultFile, "3"); err != nil {
				t.Error(err)
			}
		})
		if code, err := s.follow(t.Context()); code != 3 || err != nil {
			t.Errorf("got exit code %d, %v", code, err)
		}
	})
}
