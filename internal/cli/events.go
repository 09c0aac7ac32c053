package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/cli/terminal"
	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
)

// events returns the command that shows events in order.
func events(s *session.Session) *cobra.Command {
	var o output
	var since time.Duration
	var warnings bool
	c := &cobra.Command{
		Use:               "events [HOST]",
		Short:             "Show events of hosts, newest last",
		Long:              "Show events of WindowsInstances, of Windows nodes, and of other objects in the operator's namespace. The API server keeps events for an hour.",
		Example:           "  kubectl windows events\n  kubectl windows events win-1 --since 10m\n  kubectl windows events --warnings",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeHosts(s),
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			var list []fleetstatus.Event
			var err error
			if len(args) == 1 {
				var h fleetstatus.Host
				_, h, err = s.ReadHost(c.Context(), args[0])
				list = h.Events
			} else {
				list, err = s.Events(c.Context())
			}
			if err != nil {
				return err
			}
			list = selectEvents(list, s.Now(), since, warnings)
			if o.isData() {
				return o.data(s, list)
			}
			p := terminal.New(s.Out)
			if len(list) == 0 {
				p.Line("no events")
			}
			printEvents(p, s.Now(), list, true)
			return p.Err()
		},
	}
	o.add(c, formatJSON, formatYAML)
	c.Flags().DurationVar(&since, "since", 0, "Only show events that are not older than this, such as 10m.")
	c.Flags().BoolVar(&warnings, "warnings", false, "Only show warnings.")
	return c
}

// selectEvents returns the matching events, newest last.
func selectEvents(list []fleetstatus.Event, now time.Time, since time.Duration, warnings bool) []fleetstatus.Event {
	kept := []fleetstatus.Event{}
	for _, e := range list {
		if since > 0 && now.Sub(e.Last) > since || warnings && e.Type != "Warning" {
			continue
		}
		kept = append(kept, e)
	}
	slices.SortStableFunc(kept, func(a, b fleetstatus.Event) int {
		return cmp.Or(a.Last.Compare(b.Last), strings.Compare(a.Object, b.Object))
	})
	return kept
}

// printEvents prints events. alone means that nothing else is printed.
func printEvents(p *terminal.Printer, now time.Time, list []fleetstatus.Event, alone bool) {
	if len(list) == 0 {
		return
	}
	if !alone {
		part(p, "Events")
		list = list[:min(len(list), 15)]
	}
	var rows [][]string
	for _, e := range list {
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
