package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/cli/terminal"
	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
)

// status returns the command that shows the whole fleet on one page.
func status(s *session.Session) *cobra.Command {
	var o output
	var watch bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Show all hosts, the rollout, what waits, and problems",
		Long: "Show the state of all Windows hosts on one page: the number of hosts in each state, the operator, the rollout and what it waits for,\n" +
			"every problem with its cause and what to do next, and the hosts.\n\n" +
			"With more than 20 hosts, only those that are not Ready are listed; use -o wide to list all. The command makes at most six requests to\n" +
			"the API server.",
		Example: "  kubectl windows status\n  kubectl windows status --watch\n  kubectl windows status -o json",
		Args:    rejectArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if watch {
				return watchStatus(c.Context(), s, &o)
			}
			f, err := readFleet(c.Context(), s)
			if err != nil {
				return err
			}
			return printStatus(s, &o, f)
		},
	}
	o.add(c, formatJSON, formatYAML, formatWide, formatName)
	c.Flags().BoolVarP(&watch, "watch", "w", false, "Watch for changes. On a terminal, update the page until you press q; otherwise, print each change as a line.")
	return c
}

func readFleet(ctx context.Context, s *session.Session) (fleetstatus.Fleet, error) {
	in, err := s.Read(ctx)
	if err != nil {
		return fleetstatus.Fleet{}, err
	}
	return fleetstatus.Of(in), nil
}

func printStatus(s *session.Session, o *output, f fleetstatus.Fleet) error {
	return o.show(s, f, func(p *terminal.Printer) {
		if o.format != formatName {
			printFleet(p, f, o.format == formatWide)
			return
		}
		for _, h := range f.Hosts {
			p.Line(resourceName(h.Name))
		}
	})
}

func printFleet(p *terminal.Printer, f fleetstatus.Fleet, wide bool) {
	p.Field("Hosts", counts(p, f))
	p.Field("Operator", operatorLine(p, f))
	printRollout(p, f)
	if f.Settings.Nodes > 0 {
		p.Field("Settings", fmt.Sprintf("%d of %d nodes are up to date", f.Settings.Updated, f.Settings.Nodes))
	}
	if f.Policies != nil {
		p.Field("Policies", policiesLine(*f.Policies))
	}
	printProblems(p, f)
	printHosts(p, f, wide)
	for _, u := range f.Unread {
		p.Text(0, terminal.Faint, fmt.Sprintf("Not shown: %s (%s)", u.What, u.Why))
	}
}

func policiesLine(p fleetstatus.Policies) string {
	text := "NetworkPolicies are enforced"
	if p.Mode == v1alpha1.PoliciesReport {
		text = "NetworkPolicies are only reported"
	}
	if p.NotApplied > 0 {
		text += "; " + count(p.NotApplied, "node") + " cannot apply some of them as written"
	}
	return text
}

func counts(p *terminal.Printer, f fleetstatus.Fleet) string {
	if f.Counts.Total == 0 {
		return "none; add one with kubectl windows add"
	}
	parts := []string{p.Styled(styleOf("Ready"), fmt.Sprintf("%d of %d Ready", f.Counts.States[fleetstatus.Ready], f.Counts.Total))}
	for _, state := range []fleetstatus.State{fleetstatus.Failed, fleetstatus.NotReady, fleetstatus.Degraded, fleetstatus.Maintenance, fleetstatus.Leaving,
		fleetstatus.Joining, fleetstatus.Waiting, fleetstatus.Pending} {
		if n := f.Counts.States[state]; n > 0 {
			parts = append(parts, p.Styled(styleOf(string(state)), fmt.Sprintf("%d %s", n, state)))
		}
	}
	return strings.Join(parts, ", ")
}

func operatorLine(p *terminal.Printer, f fleetstatus.Fleet) string {
	o := f.Operator
	switch {
	case !o.Found && o.Message != "":
		return p.Styled(terminal.Bad, o.Message)
	case !o.Found:
		return "not read (namespace " + f.Namespace + ")"
	case !o.Ready:
		return p.Styled(terminal.Bad, "not Ready: "+o.Message) + " (" + o.Image + ")"
	}
	return fmt.Sprintf("%s, %s (namespace %s)", o.Version, p.Styled(terminal.Good, "Ready"), f.Namespace)
}

func printRollout(p *terminal.Printer, f fleetstatus.Fleet) {
	r := f.Rollout
	if r.Version != "" {
		line := fmt.Sprintf("%s: on %d of %d nodes", r.Version, r.AtVersion, r.Nodes)
		if !r.EstimatedEnd.IsZero() {
			line += ", done about " + r.EstimatedEnd.Local().Format("Mon 15:04")
		}
		p.Field("Version", line)
	}
	if r.MaxUnavailable > 0 || len(r.OutOfService) > 0 {
		line := fmt.Sprintf("%d out of service", len(r.OutOfService))
		if r.MaxUnavailable > 0 {
			line += fmt.Sprintf(" of at most %d", r.MaxUnavailable)
		}
		if len(r.OutOfService) > 0 {
			line += ": " + names(r.OutOfService)
		}
		p.Field("Budget", line)
	}
	if r.Paused {
		p.Field("Paused", p.Styled(terminal.Warn, "no actions start; to resume, run kubectl windows resume --all"))
	}
	if len(r.StoppedBy) > 0 {
		p.Field("Stopped by", p.Styled(terminal.Bad, names(r.StoppedBy)+": version "+r.Version+" failed there; to retry, run kubectl windows retry "+r.StoppedBy[0]))
	}
	for n, g := range r.Running {
		p.Field(once(n, "Running"), strings.TrimSpace(g.Action+" "+g.Step)+": "+hostsAndMessage(g))
	}
	for n, g := range r.Waiting {
		p.Field(once(n, "Waiting"), fmt.Sprintf("%s for %s: %s", g.Action, g.Reason, hostsAndMessage(g)))
	}
}

// once returns name for the first of several lines.
func once(n int, name string) string {
	if n > 0 {
		return " "
	}
	return name
}

func hostsAndMessage(g fleetstatus.Group) string {
	line := names(g.Hosts)
	if g.Message != "" {
		line += " (" + firstLine(g.Message) + ")"
	}
	return line
}

func printProblems(p *terminal.Printer, f fleetstatus.Fleet) {
	if len(f.Problems) == 0 {
		return
	}
	p.Line("")
	p.Heading(fmt.Sprintf("Problems (%d)", len(f.Problems)))
	for _, problem := range f.Problems {
		printProblem(p, problem)
	}
}

func printProblem(p *terminal.Printer, problem fleetstatus.Problem) {
	subject := problem.Object
	if len(problem.Hosts) > 1 {
		subject = fmt.Sprintf("%d hosts: %s", len(problem.Hosts), names(problem.Hosts))
	}
	style := styleOf(string(problem.Severity))
	p.Line(p.Styled(style, mark(string(problem.Severity))+" "+problem.Reason) + "  " + subject)
	if problem.Message != "" {
		p.Text(4, terminal.Plain, problem.Message)
	}
	if problem.Remedy != "" {
		p.Text(4, terminal.Bold, "→ "+problem.Remedy)
	}
	if problem.Docs != "" {
		p.Text(4, terminal.Faint, problem.Docs)
	}
}

const maxListed = 20

func printHosts(p *terminal.Printer, f fleetstatus.Fleet, wide bool) {
	if len(f.Hosts) == 0 {
		return
	}
	hosts, left := f.Hosts, 0
	if !wide && len(hosts) > maxListed {
		hosts = slices.DeleteFunc(slices.Clone(hosts), func(h fleetstatus.Host) bool { return h.State == fleetstatus.Ready })
		hosts = hosts[:min(len(hosts), maxListed)]
		left = len(f.Hosts) - len(hosts)
	}
	p.Line("")
	if len(hosts) > 0 {
		p.Table(hostColumns(wide), hostRows(f, hosts, wide))
	}
	if left > 0 {
		p.Text(0, terminal.Faint, count(left, "more host")+"; use -o wide to list all")
	}
}

func hostColumns(wide bool) []terminal.Column {
	columns := []terminal.Column{
		{Name: "NAME", Weight: 9}, {Name: "STATE", Weight: 8, Style: styleOf}, {Name: "REASON", Weight: 7}, {Name: "ADDRESS", Weight: 5}, {Name: "NODE", Weight: 4},
		{Name: "NEXT", Weight: 6}, {Name: "SINCE", Weight: 3},
	}
	if wide {
		columns = append(columns, terminal.Column{Name: "WINDOWS", Weight: 2}, terminal.Column{Name: "KUBELET", Weight: 2}, terminal.Column{Name: "VERSION", Weight: 2},
			terminal.Column{Name: "SOURCE", Weight: 1}, terminal.Column{Name: "MESSAGE", Weight: 6})
	}
	return columns
}

func hostRows(f fleetstatus.Fleet, hosts []fleetstatus.Host, wide bool) (rows [][]string) {
	for _, h := range hosts {
		reason := h.Reason
		if h.Cordoned {
			reason += ",cordoned"
		}
		row := []string{h.Name, string(h.State), reason, h.Address, h.Node, nextAction(h), age(f.At, h.Since)}
		if wide {
			row = append(row, h.Versions.Windows, h.Versions.Kubelet, h.Versions.Node, h.Source, firstLine(h.Message))
		}
		rows = append(rows, row)
	}
	return rows
}

// nextAction returns the next action on a host and what it waits for.
func nextAction(h fleetstatus.Host) string {
	switch {
	case h.Maintenance != nil:
		return h.Maintenance.Action + ":" + h.Maintenance.Step
	case h.Plan == nil:
		return ""
	case h.Plan.WaitsFor != "":
		return h.Plan.Action + " (" + h.Plan.WaitsFor + ")"
	}
	return h.Plan.Action
}
