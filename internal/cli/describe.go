package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/cli/terminal"
	"github.com/windows-machine-config/wmco/internal/observe/advice"
	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
)

// describe returns the command that shows one host as a tree of causes.
func describe(s *session.Session) *cobra.Command {
	var o output
	c := &cobra.Command{
		Use:   "describe HOST",
		Short: "Show details of a host",
		Long: "Show everything that the cluster knows about a host: the cause of its state and what to do next, the plan, the conditions of the\n" +
			"WindowsInstance and of the Node, services, the steps of the last join, pods that do not run, versions, and events.\n\n" +
			"HOST is the name of the WindowsInstance or of the Node, or the address.",
		Example:           "  kubectl windows describe win-1\n  kubectl windows describe 10.1.42.1 -o yaml",
		Args:              requireOneHost,
		ValidArgsFunction: completeHosts(s),
		RunE: func(c *cobra.Command, args []string) error {
			f, h, err := s.ReadHost(c.Context(), args[0])
			if err != nil {
				return err
			}
			return o.show(s, h, func(p *terminal.Printer) { printHost(p, f, h) })
		},
	}
	o.add(c, formatJSON, formatYAML)
	return c
}

func printHost(p *terminal.Printer, f fleetstatus.Fleet, h fleetstatus.Host) {
	p.Field("Host", h.Name)
	p.Field("State", p.Styled(styleOf(string(h.State)), string(h.State))+stateDetails(h))
	p.Field("Reason", strings.TrimSpace(h.Reason+" "+sinceOf(f.At, h.Since)))
	p.Field("Message", h.Message)
	if h.Severity != advice.OK {
		p.Field("Next", p.Styled(terminal.Bold, h.Next))
		p.Field("More", h.Docs)
	}
	p.Field("Address", h.Address+" ("+h.Source+")")
	p.Field("Machine", h.Machine)
	p.Field("Node", strings.TrimSpace(h.Node+" "+h.NodeIP))
	p.Field("Pod network", strings.Join(h.PodNetworks, ", "))
	p.Field("Host key", h.HostKey)
	printPlan(p, f.At, h)
	printVersions(p, h.Versions)
	if others := otherProblems(h); len(others) > 0 {
		part(p, "Problems")
		for _, problem := range others {
			printProblem(p, problem)
		}
	}
	printSteps(p, h)
	printServices(p, h.Services)
	printConditions(p, f.At, h)
	printPods(p, h)
	printEvents(p, f.At, h.Events)
	for _, u := range f.Unread {
		p.Text(0, terminal.Faint, fmt.Sprintf("Not shown: %s (%s)", u.What, u.Why))
	}
}

func part(p *terminal.Printer, title string) {
	p.Line("")
	p.Heading(title)
}

func sinceOf(now, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return "(for " + age(now, at) + ")"
}

func stateDetails(h fleetstatus.Host) (text string) {
	if h.Paused {
		text += ", paused"
	}
	if h.Cordoned && h.CordonedFor != "" {
		text += ", cordoned for " + h.CordonedFor
	} else if h.Cordoned {
		text += ", cordoned"
	}
	return text
}

// otherProblems returns the problems other than the cause of the state.
func otherProblems(h fleetstatus.Host) (others []fleetstatus.Problem) {
	for _, problem := range h.Problems {
		if problem.Reason != h.Reason || problem.Message != h.Message {
			others = append(others, problem)
		}
	}
	return others
}

func printPlan(p *terminal.Printer, now time.Time, h fleetstatus.Host) {
	if plan := h.Plan; plan != nil {
		line := fmt.Sprintf("%s (disruption: %s)", plan.Action, plan.Disruption)
		if plan.WaitsFor != "" {
			line += ", waits for " + plan.WaitsFor
		}
		if line += "\n" + plan.Message; plan.Remedy != "" && plan.WaitsFor != h.Reason { // otherwise shown below Next
			line += "\n→ " + plan.Remedy
		}
		p.Field("Plan", line)
	}
	if m := h.Maintenance; m != nil {
		p.Field("Maintenance", fmt.Sprintf("%s for %s, in step %s for %s\n%s", m.Action, age(now, m.StartedAt), m.Step, age(now, m.StepStartedAt), m.Message))
	}
	if x := h.Failure; x != nil {
		p.Field("Failure", fmt.Sprintf("%s %s ago, attempt %d\n%s", strings.TrimSpace(x.Action+" "+x.Version), age(now, x.At), max(x.Attempts, 1), x.Message))
	}
}

func printVersions(p *terminal.Printer, v fleetstatus.Versions) {
	p.Field("Windows", strings.TrimSpace(v.Windows+" "+v.OSImage))
	p.Field("Kubelet", v.Kubelet)
	p.Field("Runtime", v.Runtime)
	version := v.Node
	if v.Desired != "" && v.Desired != v.Node {
		version += " (desired: " + v.Desired + ")"
	}
	p.Field("Version", version)
	if v.Settings != "" && !v.SettingsCurrent {
		p.Field("Settings", "not up to date")
	}
}

func printSteps(p *terminal.Printer, h fleetstatus.Host) {
	if len(h.Steps) == 0 {
		return
	}
	part(p, "Steps of the last join")
	var rows [][]string
	for _, s := range h.Steps {
		duration := ""
		if !s.StartedAt.IsZero() {
			duration = fmt.Sprintf("%.1fs", s.Seconds)
		}
		rows = append(rows, []string{s.Name, s.State, duration, s.Message})
	}
	p.Table([]terminal.Column{{Name: "STEP", Weight: 9}, {Name: "STATE", Weight: 8, Style: styleOf}, {Name: "TIME", Weight: 5}, {Name: "MESSAGE", Weight: 6}}, rows)
}

func printServices(p *terminal.Printer, services *fleetstatus.Services) {
	if services == nil {
		return
	}
	part(p, "Services")
	if services.Outdated {
		p.Text(0, terminal.Faint, "The node does not respond. Its last report:")
	}
	for _, s := range services.List {
		severity, state := advice.OK, s.State
		if !s.Good {
			severity = advice.Warning
		}
		if s.WaitsFor != "" {
			state += " for " + s.WaitsFor
		}
		p.Line("  " + p.Styled(styleOf(string(severity)), mark(string(severity))) + " " + s.Name + ": " + state)
	}
}

func printConditions(p *terminal.Printer, now time.Time, h fleetstatus.Host) {
	if len(h.Conditions) == 0 {
		return
	}
	part(p, "Conditions")
	object := ""
	for _, c := range h.Conditions {
		if c.Object != object {
			object = c.Object
			p.Line(object)
		}
		severity := advice.OK
		if !c.Good {
			severity = advice.Error
		}
		p.Line("  " + p.Styled(styleOf(string(severity)), mark(string(severity))) + " " + c.Type + ": " + c.Reason + " " + p.Styled(terminal.Faint, sinceOf(now, c.Since)))
		if !c.Good && c.Message != "" {
			p.Text(6, terminal.Plain, c.Message)
		}
	}
}

func printPods(p *terminal.Printer, h fleetstatus.Host) {
	if len(h.Pods) == 0 {
		return
	}
	part(p, "Pods that do not run")
	for _, pod := range h.Pods {
		p.Line(p.Styled(terminal.Warn, pod.Reason) + "  " + pod.Name)
		if pod.Message != "" {
			p.Text(4, terminal.Plain, pod.Message)
		}
		p.Text(4, terminal.Bold, "→ "+pod.Remedy)
	}
}

const maxEvents = 15

func printEvents(p *terminal.Printer, now time.Time, list []fleetstatus.Event) {
	if len(list) == 0 {
		return
	}
	part(p, "Events")
	var rows [][]string
	for _, e := range list[:min(len(list), maxEvents)] {
		count := ""
		if e.Count > 1 {
			count = fmt.Sprintf("x%d", e.Count)
		}
		rows = append(rows, []string{age(now, e.Last), e.Type, e.Reason, e.Object, count, e.Message})
	}
	p.Table([]terminal.Column{
		{Name: "AGE", Weight: 7}, {Name: "TYPE", Weight: 3, Style: styleOf}, {Name: "REASON", Weight: 9}, {Name: "OBJECT", Weight: 8}, {Name: "COUNT", Weight: 1}, {Name: "MESSAGE", Weight: 8},
	}, rows)
}
