package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/cli/terminal"
	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
)

// The pause between two reads is at least refreshPause, and refreshShare times the duration of the last read, which limits the load of the API
// server.
const (
	refreshPause = 2 * time.Second
	refreshShare = 20
)

// pauseAfter returns the pause after a read of the given duration.
func pauseAfter(took time.Duration) time.Duration { return max(refreshPause, refreshShare*took) }

func watchStatus(ctx context.Context, s *session.Session, o *output) error {
	f, err := readFleet(ctx, s)
	if err != nil {
		return err
	}
	if !terminal.IsTerminal(s.Out) || !terminal.IsTerminal(s.In) || o.format != formatText && o.format != formatWide {
		return watchLines(ctx, s, o, f)
	}
	model := page{
		read:  func() (fleetstatus.Fleet, error) { return readFleet(ctx, s) },
		fleet: f, wide: o.format == formatWide, color: terminal.New(s.Out).Color(),
	}
	program := tea.NewProgram(model, tea.WithContext(ctx), tea.WithInput(s.In), tea.WithOutput(s.Out))
	if _, err = program.Run(); ctx.Err() != nil {
		return nil
	}
	return err
}

// watchLines prints the fleet once, and then each change as a line. With -o json and yaml it prints the whole fleet again.
func watchLines(ctx context.Context, s *session.Session, o *output, f fleetstatus.Fleet) error {
	if err := printStatus(s, o, f); err != nil {
		return err
	}
	took := time.Duration(0)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pauseAfter(took)):
		}
		began := time.Now()
		next, err := readFleet(ctx, s)
		took = time.Since(began)
		if ctx.Err() != nil {
			return nil
		}
		p := terminal.New(s.Out)
		switch {
		case err != nil:
			p.Line(time.Now().Format(time.TimeOnly) + " " + err.Error())
		case o.isData():
			if err := o.data(s, next); err != nil {
				return err
			}
		default:
			for _, line := range changes(f, next) {
				p.Line(next.At.Local().Format(time.TimeOnly) + " " + line)
			}
		}
		if p.Err() != nil {
			return p.Err()
		}
		if err == nil {
			f = next
		}
	}
}

func changes(previous, current fleetstatus.Fleet) (lines []string) {
	before := map[string]fleetstatus.Host{}
	for _, h := range previous.Hosts {
		before[h.Name] = h
	}
	for _, h := range current.Hosts {
		old, known := before[h.Name]
		delete(before, h.Name)
		text := fmt.Sprintf("%s (%s)", h.State, h.Reason)
		if action := nextAction(h); action != "" {
			text += " " + action
		}
		switch {
		case !known:
			lines = append(lines, fmt.Sprintf("%s: new, %s", h.Name, text))
		case old.State != h.State || old.Reason != h.Reason || nextAction(old) != nextAction(h):
			lines = append(lines, fmt.Sprintf("%s: %s", h.Name, text))
		}
	}
	for _, h := range previous.Hosts {
		if _, removed := before[h.Name]; removed {
			lines = append(lines, h.Name+": removed")
		}
	}
	return lines
}

type page struct {
	read        func() (fleetstatus.Fleet, error)
	fleet       fleetstatus.Fleet
	wide, color bool
	// fault is why the last read failed.
	fault         error
	width, height int
	// top is the first visible line.
	top int
}

type readResult struct {
	fleet fleetstatus.Fleet
	err   error
	took  time.Duration
}

// Init implements tea.Model.
func (m page) Init() tea.Cmd { return m.after(0) }

func (m page) after(took time.Duration) tea.Cmd {
	return tea.Tick(pauseAfter(took), func(time.Time) tea.Msg {
		began := time.Now()
		f, err := m.read()
		return readResult{f, err, time.Since(began)}
	})
}

// Update implements tea.Model.
func (m page) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch message := message.(type) {
	case readResult:
		if m.fault = message.err; message.err == nil {
			m.fleet = message.fleet
		}
		return m, m.after(message.took)
	case tea.WindowSizeMsg:
		m.width, m.height = message.Width, message.Height
	case tea.KeyPressMsg:
		switch message.String() {
		case "q", "esc", "ctrl+c":
			return m, tea.Quit
		case "up", "k":
			m.top--
		case "down", "j":
			m.top++
		case "pgup":
			m.top -= m.height
		case "pgdown", "space":
			m.top += m.height
		}
	}
	m.top = max(0, min(m.top, len(m.lines())-m.body()))
	return m, nil
}

// body returns the number of lines for the page, without the last line.
func (m page) body() int { return max(1, m.height-1) }

func (m page) lines() []string {
	var b strings.Builder
	printFleet(terminal.Fixed(&b, max(m.width, 1), m.color), m.fleet, m.wide)
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

// View implements tea.Model.
func (m page) View() tea.View {
	lines := m.lines()
	top := max(0, min(m.top, len(lines)-m.body()))
	shown := lines[top:min(len(lines), top+m.body())]
	state := m.fleet.At.Local().Format(time.TimeOnly) + "  q quits"
	if len(lines) > m.body() {
		state += ", arrows scroll"
	}
	if m.fault != nil {
		state = "not up to date since " + m.fleet.At.Local().Format(time.TimeOnly) + ": " + m.fault.Error()
	}
	footer := lipgloss.NewStyle().Faint(true).MaxWidth(max(m.width, 1)).MaxHeight(1).Render(state)
	view := tea.NewView(strings.Join(append(shown, footer), "\n"))
	view.AltScreen = true
	return view
}
