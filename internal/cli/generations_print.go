package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/windows-machine-config/wmco/internal/cli/terminal"
	"github.com/windows-machine-config/wmco/internal/observe/generations"
)

// printGenerations prints a summary, tables of workloads and hosts, and the steps for workloads. Names of images, selectors and owners are from
// others, so they are escaped.
func printGenerations(p *terminal.Printer, r generationsReport) {
	p.Field("Target", describeGeneration(r.Target)+"; "+count(r.Target.Nodes, "node"))
	for _, text := range r.Requirements {
		p.Field("Needs", text)
	}
	for _, g := range r.Builds {
		if g.Build != r.Target.Build {
			p.Field("Nodes", fmt.Sprintf("%d with %s", g.Nodes, describeGeneration(g)))
		}
	}
	if len(r.UnknownBuilds) > 0 {
		p.Field("Not assessed", "nodes that report no version of Windows: "+names(r.UnknownBuilds))
	}
	p.Field("Workloads", summarize(r.Workloads))
	if len(r.Workloads) > 0 {
		part(p, fmt.Sprintf("Workloads (%d)", len(r.Workloads)))
		printWorkloads(p, r)
	}
	if len(r.Hosts) > 0 {
		part(p, fmt.Sprintf("Hosts to replace (%d)", len(r.Hosts)))
		printOldHosts(p, r.Hosts)
	}
	printNext(p, r.Workloads)
	for _, u := range r.Unread {
		p.Text(0, terminal.Warn, "! "+printable(u.What+": "+u.Why))
	}
}

func describeGeneration(g generations.Generation) string {
	text := g.Build
	if g.Name != "" {
		text = g.Name + " (" + g.Build + ")"
	}
	if g.SupportedUntil != "" {
		text += ", security updates until " + g.SupportedUntil
	}
	return text
}

// summarize counts workloads by state.
func summarize(all []generations.Assessment) string {
	counts := map[generations.State]int{}
	for _, w := range all {
		counts[w.State]++
	}
	text := fmt.Sprintf("%d of %d can move", counts[generations.Movable], len(all))
	for _, s := range []struct {
		state generations.State
		text  string
	}{
		{generations.ImageMissing, "%d without an image"}, {generations.Pinned, "%d pinned"}, {generations.Undetermined, "%d not known"},
	} {
		if counts[s.state] > 0 {
			text += ", " + fmt.Sprintf(s.text, counts[s.state])
		}
	}
	return text
}

func printWorkloads(p *terminal.Printer, r generationsReport) {
	columns := []terminal.Column{
		{Name: "NAMESPACE", Weight: 3}, {Name: "WORKLOAD", Weight: 6}, {Name: "STATE", Weight: 5, Style: stateStyle}, {Name: "PODS", Weight: 1},
	}
	builds := r.Builds
	if r.Target.Nodes == 0 {
		builds = slices.Concat(builds, []generations.Generation{r.Target})
	}
	for _, g := range builds {
		columns = append(columns, terminal.Column{Name: g.Short(), Weight: 2})
	}
	columns = append(columns, terminal.Column{Name: "PINNED BY", Weight: 4})
	var rows [][]string
	for _, w := range r.Workloads {
		row := []string{w.Namespace, printable(w.Kind + "/" + w.Name), string(w.State), strconv.Itoa(w.Pods)}
		for _, g := range builds {
			row = append(row, string(w.Builds[g.Build]))
		}
		var pins []string
		for _, pin := range w.Pins {
			pins = append(pins, strings.TrimSpace(printable(string(pin.By)+" "+pin.Value)))
		}
		rows = append(rows, append(row, strings.Join(pins, "; ")))
	}
	p.Table(columns, rows)
}

func printOldHosts(p *terminal.Printer, hosts []generations.Host) {
	var rows [][]string
	for _, h := range hosts {
		version := h.Build
		if h.Revision > 0 {
			version += "." + strconv.Itoa(h.Revision)
		}
		source := "other"
		if h.Own {
			source = "own"
		}
		var kept []string
		for _, b := range h.KeptBy {
			kept = append(kept, printable(fmt.Sprintf("%s (%s, %s)", b.Workload, b.State, count(b.Others, "other host"))))
		}
		rows = append(rows, []string{string(h.Turn), h.Name, version, source, strconv.Itoa(h.Pods), names(kept)})
	}
	p.Table([]terminal.Column{
		{Name: "TURN", Weight: 5}, {Name: "HOST", Weight: 6}, {Name: "VERSION", Weight: 3}, {Name: "SOURCE", Weight: 1},
		{Name: "PODS", Weight: 2}, {Name: "KEPT BY", Weight: 4},
	}, rows)
}

// printNext prints the steps, once for all workloads with the same state and steps.
func printNext(p *terminal.Printer, all []generations.Assessment) {
	type group struct {
		state generations.State
		steps string
	}
	workloads := map[group][]string{}
	var groups []group
	for _, w := range all {
		g := group{w.State, strings.Join(w.Next, "\n")}
		if g.steps == "" {
			continue
		}
		if workloads[g] == nil {
			groups = append(groups, g)
		}
		workloads[g] = append(workloads[g], printable(w.ID()))
	}
	if len(groups) > 0 {
		part(p, "Next steps")
	}
	for _, g := range groups {
		p.Text(0, stateStyle(string(g.state)), stateMark(g.state)+" "+names(workloads[g]))
		for step := range strings.SplitSeq(g.steps, "\n") {
			p.Text(4, terminal.Plain, "→ "+printable(step))
		}
	}
}

func stateStyle(state string) terminal.Style {
	switch generations.State(state) {
	case generations.Movable:
		return terminal.Good
	case generations.ImageMissing:
		return terminal.Bad
	case generations.Pinned, generations.Undetermined:
		return terminal.Warn
	}
	return terminal.Plain
}

func stateMark(state generations.State) string {
	switch state {
	case generations.Movable:
		return mark("ok")
	case generations.ImageMissing:
		return mark("error")
	}
	return mark("warning")
}
