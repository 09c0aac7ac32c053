package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/cli/nodefiles"
	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/cli/terminal"
	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

// updatesFile is the file with the report of a node, below the folder that its kubelet serves.
const updatesFile = "wicd/windows-updates.json"

// nodeUpdates is what a Node says about updates of its Windows.
type nodeUpdates struct {
	Node string `json:"node"`
	// Windows is build and revision.
	Windows string `json:"windows,omitempty"`
	// Updates is the summary; nil if the Node has none, or none that is valid.
	Updates *windowsupdate.Summary `json:"updates,omitempty"`
	// Overdue is the reason of condition WindowsUpdatesOverdue if it is True, Message its message, or why there is no summary.
	Overdue string `json:"overdue,omitempty"`
	Message string `json:"message,omitempty"`
}

// updates returns the command that shows Windows updates.
func updates(s *session.Session) *cobra.Command {
	var o output
	var search bool
	a := &action{s: s}
	c := &cobra.Command{
		Use:   "updates [HOST...]",
		Short: "Show pending and installed Windows updates",
		Long: "Show for each Windows node which updates Windows knows as pending, when the newest one was installed, when Windows last searched and where,\n" +
			"and what blocks updates. With a host, list its pending updates and its last installations; the list comes from the node's kubelet.\n\n" +
			"Whether the operator installs updates depends on spec.windowsUpdates.policy of WindowsConfig; kubectl windows plan shows when.\n\n" +
			"With --search, request a query of Windows now instead of at the next regular time, for example after an update was approved. With policy\n" +
			"Install, Windows then searches on its server and downloads updates; with Notify, it returns what its own last search found.",
		Example: "  kubectl windows updates\n  kubectl windows updates win-1\n  kubectl windows updates -o json\n  kubectl windows updates --search win-1 win-2",
		Args: func(c *cobra.Command, args []string) error {
			switch {
			case search && len(args) == 0:
				return session.Failf(session.CodeUsage, "%s --search takes at least one host", c.CommandPath())
			case !search && len(args) > 1:
				return session.Failf(session.CodeUsage, "%s takes at most one host, got %q; several hosts need --search", c.CommandPath(), args)
			}
			return nil
		},
		ValidArgsFunction: completeHosts(s),
		RunE: func(c *cobra.Command, args []string) error {
			if search {
				return a.search(c.Context(), args)
			}
			in, err := s.Read(c.Context())
			if err != nil {
				return err
			}
			if len(args) == 0 {
				all := updatesOf(in)
				return o.show(s, all, func(p *terminal.Printer) { printUpdates(p, in, all) })
			}
			r, node, err := readReport(c.Context(), s, in, args[0])
			if err != nil {
				return err
			}
			var spec v1alpha1.WindowsUpdatesSpec
			if in.Config != nil {
				spec = in.Config.Spec.WindowsUpdates
			}
			return o.show(s, r, func(p *terminal.Printer) { printReport(p, in.Now, node, r, spec) })
		},
	}
	o.add(c, formatJSON, formatYAML)
	c.Flags().BoolVar(&search, "search", false, "Request that Windows on these hosts be asked about updates now.")
	return c
}

// search requests that Windows on these hosts be asked about updates.
func (a *action) search(ctx context.Context, args []string) error {
	in, err := a.read(ctx)
	if err != nil {
		return err
	}
	if in.Config != nil && in.Config.Spec.WindowsUpdates.Policy == v1alpha1.UpdatesUnmanaged {
		return session.Failf(session.CodeFailed, "spec.windowsUpdates.policy of WindowsConfig is Unmanaged: nodes do not query Windows; set Notify or Install first")
	}
	hosts, err := a.find(in, args)
	if err != nil {
		return err
	}
	nodes, err := nodesOf(hosts)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		if err := a.annotateNode(ctx, node, api.AnnotationSearchUpdates, "search requested"); err != nil {
			return err
		}
	}
	return nil
}

// updatesOf returns what each Windows node says, sorted by name.
func updatesOf(in fleetstatus.Input) []nodeUpdates {
	all := []nodeUpdates{}
	for i := range in.Nodes {
		if nodestate.IsWindows(&in.Nodes[i]) {
			all = append(all, updatesOfNode(&in.Nodes[i]))
		}
	}
	slices.SortFunc(all, func(a, b nodeUpdates) int { return cmp.Compare(a.Node, b.Node) })
	return all
}

func updatesOfNode(node *corev1.Node) nodeUpdates {
	u := nodeUpdates{Node: node.Name, Windows: truncate.Printable(strings.TrimPrefix(node.Status.NodeInfo.KernelVersion, "10.0."), 64)}
	text, found := node.Annotations[api.AnnotationWindowsUpdates]
	if found {
		if summary, err := windowsupdate.ParseSummary(text); err != nil {
			u.Message = truncate.Printable("annotation "+api.AnnotationWindowsUpdates+" is invalid: "+err.Error(), truncate.Note)
		} else {
			u.Updates = &summary
		}
	} else {
		u.Message = "nothing reported yet, or spec.windowsUpdates.policy of WindowsConfig is Unmanaged"
	}
	if c := nodestate.Condition(node, api.ConditionUpdatesOverdue); c != nil && c.Status == corev1.ConditionTrue {
		u.Overdue, u.Message = truncate.Printable(c.Reason, 64), truncate.Printable(c.Message, truncate.Note)
	}
	return u
}

func printUpdates(p *terminal.Printer, in fleetstatus.Input, all []nodeUpdates) {
	for _, u := range in.Unread {
		if u.What == "nodes" {
			p.Text(0, terminal.Faint, fmt.Sprintf("Not shown: %s (%s)", u.What, u.Why))
			return
		}
	}
	if len(all) == 0 {
		p.Line("No Windows nodes.")
		return
	}
	columns := []terminal.Column{
		{Name: "NODE", Weight: 9}, {Name: "WINDOWS", Weight: 6}, {Name: "PENDING", Weight: 8}, {Name: "NEWEST INSTALLED", Weight: 7},
		{Name: "SEARCHED", Weight: 5}, {Name: "SOURCE", Weight: 4}, {Name: "OVERDUE", Weight: 7}, {Name: "BLOCKED BY", Weight: 10},
	}
	var rows [][]string
	for _, u := range all {
		row := []string{u.Node, u.Windows, "unknown", "unknown", "unknown", "", cmp.Or(u.Overdue, "unknown"), u.Message}
		if s := u.Updates; s != nil {
			row[2], row[3], row[4], row[5] = pendingText(*s), newestText(in.Now, *s), ago(in.Now, s.Searched), s.Source
			row[6], row[7] = cmp.Or(u.Overdue, "no"), s.Blocked
		}
		rows = append(rows, row)
	}
	p.Table(columns, rows)
}

// pendingText lists the numbers of pending updates by class.
func pendingText(s windowsupdate.Summary) string {
	if s.Total == nil {
		return "unknown"
	}
	var parts []string
	listed := 0
	for _, class := range windowsupdate.Classes() {
		if n := s.Pending[class]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, class))
			listed += n
		}
	}
	if more := *s.Total - listed; more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

func newestText(now time.Time, s windowsupdate.Summary) string {
	if s.Newest.IsZero() {
		return "unknown"
	}
	return strings.TrimSpace(s.KB + " " + ago(now, s.Newest))
}

// ago formats how long ago something was; "unknown" if at is zero.
func ago(now, at time.Time) string {
	if at.IsZero() {
		return "unknown"
	}
	return age(now, at) + " ago"
}

// readReport reads the report of a host from its kubelet.
func readReport(ctx context.Context, s *session.Session, in fleetstatus.Input, host string) (windowsupdate.Report, string, error) {
	node, err := session.NodeOf(fleetstatus.Of(in), host)
	if err != nil {
		return windowsupdate.Report{}, "", err
	}
	config, err := s.Config()
	if err != nil {
		return windowsupdate.Report{}, node, err
	}
	client, err := nodefiles.New(config)
	if err != nil {
		return windowsupdate.Report{}, node, err
	}
	if config.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, config.Timeout)
		defer cancel()
	}
	part, err := client.From(ctx, node, updatesFile, 0)
	if err != nil {
		return windowsupdate.Report{}, node, explainReport(err, node)
	}
	defer part.Body.Close()
	text, err := io.ReadAll(io.LimitReader(part.Body, windowsupdate.MaxBytes+1))
	if err != nil {
		return windowsupdate.Report{}, node, session.Explain(err, "reading the updates of node "+node)
	}
	r, err := windowsupdate.Parse(text)
	if err != nil {
		return r, node, session.Failf(session.CodeFailed, "node %s: %w; use the version of kubectl windows that the operator has", node, err)
	}
	return r, node, nil
}
