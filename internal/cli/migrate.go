package cli

import (
	"github.com/spf13/cobra"

	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/migration"
)

// migrate returns the command that checks a migration from the original operator.
func migrate(s *session.Session) *cobra.Command {
	var only bool
	c := &cobra.Command{
		Use:   "migrate --check",
		Short: "Says what happens to a cluster of the original operator when this one takes its place",
		Long: "Reads a cluster that the original Windows Machine Config Operator manages, and says what blocks the take-over, what changes and what\n" +
			"stays. It changes nothing. The exit code is 3 if something blocks. wmco migrate --check of the operator's image also says whether its\n" +
			"kubelets go with the cluster.",
		Example: "  kubectl windows migrate --check",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if !only {
				return session.Failf(session.CodeUsage, "use %s --check: the operator takes nodes over by itself, as soon as it is installed", c.CommandPath())
			}
			is, server, err := readCluster(c.Context(), s)
			if err != nil {
				return err
			}
			found := migration.Judge(is)
			if err := migration.Write(s.Out, found); err != nil {
				return err
			}
			tooOld := &findings{}
			checkServer(tooOld, server)
			if migration.Blocked(found) || (*tooOld)[0].Remedy != "" {
				return session.Failf(session.CodeFindings, "the take-over is blocked (the API server is %s)", server)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&only, "check", false, "Required: change nothing.")
	return c
}
