package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
)

func hosts(states ...fleetstatus.State) fleetstatus.Fleet {
	f := fleetstatus.Fleet{At: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC), Counts: fleetstatus.Counts{Total: len(states), States: map[fleetstatus.State]int{}}}
	for n, state := range states {
		f.Hosts = append(f.Hosts, fleetstatus.Host{Name: fmt.Sprintf("win-%d", n), State: state, Reason: "Because", Address: "10.1.42.1"})
		f.Counts.States[state]++
	}
	return f
}

// TestPageFitsTerminal renders the page on terminals of all sizes and scrolls it.
func TestPageFitsTerminal(t *testing.T) {
	for width := 1; width < 130; width += 3 {
		for height := 1; height < 30; height += 4 {
			var model tea.Model = page{fleet: hosts(slices.Repeat([]fleetstatus.State{fleetstatus.Failed}, 15)...)}
			model, _ = model.Update(tea.WindowSizeMsg{Width: width, Height: height})
			for range 3 {
				lines := strings.Split(model.View().Content, "\n")
				if len(lines) > max(height, 2) {
					t.Fatalf("on %dx%d, the page has %d lines", width, height, len(lines))
				}
				for _, line := range lines {
					if w := ansi.StringWidth(line); w > max(width, 20) {
						t.Fatalf("on %dx%d a line has %d columns: %q", width, height, w, line)
					}
				}
				model, _ = model.Update(tea.KeyPressMsg(tea.Key{Code: tea.KeyPgDown}))
			}
		}
	}
}

func TestPageFollowsCluster(t *testing.T) {
	var model tea.Model = page{fleet: hosts(fleetstatus.Joining), width: 100, height: 30}
	model, _ = model.Update(readResult{fleet: hosts(fleetstatus.Ready)})
	if view := model.View().Content; !strings.Contains(view, "1 of 1 Ready") || !strings.Contains(view, "q quits") {
		t.Errorf("the page is\n%s", view)
	}
	model, _ = model.Update(readResult{err: errors.New("no answer")})
	if view := model.View().Content; !strings.Contains(view, "1 of 1 Ready") || !strings.Contains(view, "not up to date since") || !strings.Contains(view, "no answer") {
		t.Errorf("the page is\n%s", view)
	}
	if _, command := model.Update(tea.KeyPressMsg(tea.Key{Code: 'q', Text: "q"})); command == nil {
		t.Error("q does not quit")
	}
}

func TestWatchPrintsChanges(t *testing.T) {
	before, current := hosts(fleetstatus.Joining, fleetstatus.Ready, fleetstatus.Leaving), hosts(fleetstatus.Ready, fleetstatus.Ready)
	current.Hosts = append(current.Hosts, fleetstatus.Host{Name: "win-9", State: fleetstatus.Pending, Reason: "Unknown"})
	want := []string{"win-0: Ready (Because)", "win-9: new, Pending (Unknown)", "win-2: removed"}
	if got := changes(before, current); !slices.Equal(got, want) {
		t.Errorf("changes() = %q, want %q", got, want)
	}
}

func TestPauseLimitsAPIServerLoad(t *testing.T) {
	if got := pauseAfter(10 * time.Millisecond); got != refreshPause {
		t.Errorf("after a short read, the pause is %s", got)
	}
	if got := pauseAfter(time.Second); got != 20*time.Second {
		t.Errorf("after a read of one second, the pause is %s", got)
	}
}
