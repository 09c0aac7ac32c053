package storytest

import (
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// storyWindows simulates what Windows does on its own. The zero value does nothing.
type storyWindows struct {
	quirks  sim.Quirks
	created time.Time
	// lacksContainers means that feature Containers is missing, and enabled that Windows has restarted for it.
	lacksContainers, enabled bool
	// restartsLeft is the number of restarts that Windows will still make on its own, and ownRestarts the number of restarts that neither the operator nor the story made.
	restartsLeft, ownRestarts int
	// running is the command that continues after its connection has ended, or nil.
	running *runningCommand
}

// runningCommand is a command that ends at a given time unless Windows restarts first.
type runningCommand struct {
	do   func()
	ends time.Time
	boot string
}

const (
	// ownRestart is the time after a start at which Windows restarts on its own, and restartTakes the duration of a restart.
	ownRestart   = 30 * time.Second
	restartTakes = time.Minute
	// runsOnFor is how long a command continues after its connection is lost.
	runsOnFor = 30 * time.Second
)

// newStoryWindows returns Windows with the quirks of a seed, all of which pass without help.
func newStoryWindows(seed uint64) storyWindows {
	return storyWindows{
		quirks: sim.RandomPassingQuirks(seed), created: time.Now(), lacksContainers: rand.New(rand.NewPCG(seed, 7)).IntN(2) == 0,
	}
}

// withoutQuirks removes the quirks from all hosts' Windows. reason describes what the quirks would hide in this story.
func (s *story) withoutQuirks(reason string) {
	if reason == "" {
		s.t.Error("a story disables quirks without a reason")
	}
	s.noQuirks = true
	for _, h := range s.hosts {
		h.windows = storyWindows{}
	}
}

// advance advances Windows by one tick: it restarts, or a command ends.
func (w *storyWindows) advance(h *storyHost, restart func()) {
	if c := w.running; c != nil && (!h.alive() || h.boot() != c.boot) {
		w.running = nil
	} else if c != nil && !time.Now().Before(c.ends) {
		w.running = nil
		c.do()
	}
	if w.restartsLeft > 0 && h.alive() && time.Since(h.backAt) >= ownRestart {
		w.restartsLeft--
		h.story.record("Windows on %s restarts by itself", h.name)
		restart()
	}
}

// restartItself restarts Windows as if Windows had decided to.
func (h *storyHost) restartItself() {
	h.windows.ownRestarts++
	h.backAt = time.Now().Add(restartTakes)
}

// boot returns the boot ID.
func (h *storyHost) boot() string { return strconv.Itoa(h.bootID + h.windows.ownRestarts) }

// unready returns the error that delays WICD's join, or nil.
func (w *storyWindows) unready(h *storyHost) error {
	up, s := time.Since(h.backAt), w.quirks.Servicing
	if h.backAt.IsZero() {
		up = time.Since(w.created)
	}
	switch {
	case time.Since(w.created) < w.quirks.Setup.For:
		return &wicdapi.Error{Code: wicdapi.CodeWaitingForSetup, Message: "Windows is completing its setup"}
	case w.lacksContainers && (up < s.ServicingFor || w.enabled && (w.restartsLeft > 0 || up < s.PendingFor)):
		return &wicdapi.Error{Code: wicdapi.CodeServicing, Message: "Windows is installing features or updates"}
	}
	return nil
}

// quirkyHost applies the quirks of Windows to the operator's commands.
type quirkyHost struct {
	commandHandler
	h *storyHost
}

func (u quirkyHost) facts() wicdapi.Facts {
	f := u.commandHandler.facts()
	if u.h.changeFacts == nil {
		q := u.h.windows.quirks
		f.Host.UBR, f.Host.Interfaces = q.Setup.Revision.Of(f.Host.Build, f.Host.UBR), q.Adapter.Interfaces(f.Host.Interfaces, u.h.version != "")
	}
	return f
}

// restart is followed by another restart by Windows while it completes its features.
func (u quirkyHost) restart() error {
	err := u.commandHandler.restart()
	if err == nil {
		u.h.windows.restartsLeft = min(1, u.h.windows.quirks.Servicing.RestartsItself)
	}
	return err
}

func (u quirkyHost) join(r wicdapi.JoinRequest) (wicdapi.JoinResult, error) {
	w := &u.h.windows
	switch {
	case u.h.changeFacts != nil || u.h.version != "" || u.h.others:
	case w.running != nil:
		return wicdapi.JoinResult{}, busy()
	default:
		if err := w.unready(u.h); err != nil {
			return wicdapi.JoinResult{}, err
		}
		if w.lacksContainers && !w.enabled && r.MayReboot {
			w.enabled, w.restartsLeft = true, w.quirks.Servicing.RestartsItself
			u.h.story.record("%s restarts for a feature", u.h.name)
			before := u.h.boot()
			u.h.restartItself()
			return wicdapi.JoinResult{Rebooting: "feature " + desired.ContainersFeature + " is enabled with a restart", BootID: before}, nil
		}
		w.lacksContainers = false
	}
	if w.running != nil {
		return wicdapi.JoinResult{}, busy()
	}
	return u.commandHandler.join(r)
}

func (u quirkyHost) leave(r wicdapi.LeaveRequest) (wicdapi.LeaveResult, error) {
	if u.h.windows.running != nil {
		return wicdapi.LeaveResult{}, busy()
	}
	return u.commandHandler.leave(r)
}

func busy() error {
	return &wicdapi.Error{Code: wicdapi.CodeBusy, Message: "another receive, join or leave is running on this host"}
}

// runsOn is a host on which a command continues after its connection has ended: Windows has no signals and no terminals that hang up.
type runsOn struct{ quirkyHost }

func (r runsOn) continueRunning(do func()) {
	if w := &r.h.windows; w.running == nil {
		w.running = &runningCommand{do: do, ends: time.Now().Add(runsOnFor), boot: r.h.boot()}
	}
}

func (r runsOn) join(q wicdapi.JoinRequest) (wicdapi.JoinResult, error) {
	r.continueRunning(func() { _, _ = r.quirkyHost.join(q) }) // its result is lost
	return wicdapi.JoinResult{}, nil
}

func (r runsOn) leave(q wicdapi.LeaveRequest) (wicdapi.LeaveResult, error) {
	r.continueRunning(func() { _, _ = r.quirkyHost.leave(q) })
	return wicdapi.LeaveResult{}, nil
}

// afterLoss returns the host for a command whose connection is lost after it was sent.
func (u quirkyHost) afterLoss() commandHandler {
	if u.h.windows.quirks.Shell.RunsOn {
		return runsOn{u}
	}
	return u
}
