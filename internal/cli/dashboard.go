package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	web "github.com/windows-machine-config/wmco/internal/cli/dashboard"
	"github.com/windows-machine-config/wmco/internal/cli/session"
)

// dashboard returns the command that serves the page or writes it as a file.
func dashboard(s *session.Session) *cobra.Command {
	var export string
	c := &cobra.Command{
		Use:   "dashboard",
		Short: "Show all hosts in a browser",
		Long: "Serve a page on 127.0.0.1 that shows all hosts and follows their changes, until you stop the command. The page uses your permissions and\n" +
			"changes nothing. The printed address admits one browser, once: do not share it.",
		Example: "  kubectl windows dashboard\n  kubectl windows dashboard --export report.html",
		Args:    rejectArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			options, err := dashboardOptions(c, s)
			if err != nil {
				return err
			}
			if export != "" {
				return exportPage(c, options, export)
			}
			options.Started = func(address string) {
				fmt.Fprintf(s.Out, "Open this address in your browser. It is secret, and works once:\n\n  %s\n\nPress Ctrl-C to stop.\n", address)
			}
			return session.Explain(web.Run(c.Context(), options), "serving the page")
		},
	}
	c.Flags().StringVar(&export, "export", "", "Write the state of all hosts to `file` as a single page, for example for a ticket, and exit; - is standard output.")
	return c
}

func dashboardOptions(c *cobra.Command, s *session.Session) (web.Options, error) {
	config, err := s.Config()
	if err != nil {
		return web.Options{}, err
	}
	namespace, err := s.OperatorNamespace(c.Context())
	return web.Options{Config: config, Namespace: namespace, Cluster: s.ContextName()}, err
}

// exportPage writes the report. Only the user can read the file: it names hosts and addresses.
func exportPage(c *cobra.Command, o web.Options, name string) error {
	write := func(w io.Writer) error { return session.Explain(web.Export(c.Context(), o, w), "reading the cluster") }
	if name == "-" {
		return write(c.OutOrStdout())
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return session.Failf(session.CodeUsage, "writing the report: %w", err)
	}
	if err := write(file); err != nil {
		_ = file.Close()
		_ = os.Remove(name)
		return err
	}
	if err := file.Close(); err != nil {
		return session.Failf(session.CodeFailed, "writing the report: %w", err)
	}
	return nil
}
