package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/cli/terminal"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// Output formats.
const (
	formatText = ""
	formatJSON = "json"
	formatYAML = "yaml"
	formatWide = "wide"
	formatName = "name"
)

type output struct{ format string }

// add adds the flag, with the formats that the command has in addition to text. Others are rejected before the command runs.
func (o *output) add(c *cobra.Command, formats ...string) {
	c.PreRunE = func(*cobra.Command, []string) error {
		if o.format == formatText || slices.Contains(formats, o.format) {
			return nil
		}
		return session.Failf(session.CodeUsage, "-o %s is not supported: use one of %s", o.format, strings.Join(formats, ", "))
	}
	c.Flags().StringVarP(&o.format, "output", "o", "", "Output format. One of: "+strings.Join(formats, ", ")+".")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

func (o *output) isData() bool { return o.format == formatJSON || o.format == formatYAML }

func (o *output) data(s *session.Session, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err == nil && o.format == formatYAML {
		text, err = yaml.JSONToYAML(text)
	}
	if err != nil {
		return fmt.Errorf("formatting the output: %w", err)
	}
	_, err = fmt.Fprintln(s.Out, strings.TrimSuffix(string(text), "\n"))
	return err
}

// show prints a value for programs, or else what text prints.
func (o *output) show(s *session.Session, value any, text func(*terminal.Printer)) error {
	if o.isData() {
		return o.data(s, value)
	}
	p := terminal.New(s.Out)
	text(p)
	return p.Err()
}

// resourceName returns kubectl's name of an instance.
func resourceName(instance string) string { return "windowsinstance." + api.GroupName + "/" + instance }

// age formats how long ago something was, as kubectl does; empty if at is zero.
func age(now, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return duration.HumanDuration(max(0, now.Sub(at)))
}

func styleOf(word string) terminal.Style {
	switch word {
	case "Ready", "ok", "Done", "True":
		return terminal.Good
	case "Failed", "NotReady", "error":
		return terminal.Bad
	case "Degraded", "warning", "Warning", "Maintenance", "Leaving", "Joining", "Pending", "Running":
		return terminal.Warn
	}
	return terminal.Plain
}

// mark returns a sign for a severity, for output without colors.
func mark(severity string) string {
	switch severity {
	case "error":
		return "✗"
	case "warning":
		return "!"
	case "ok":
		return "✓"
	}
	return "·"
}

const maxNamed = 5

// names lists the first names and how many more there are.
func names(list []string) string { return truncate.List(list, maxNamed, ", ") }

// count returns a number and what it counts: "1 node", "2 nodes".
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
