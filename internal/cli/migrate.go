package cli

import (
	"github.com/spf13/cobra"

	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/operator/migration"
)

// migrate returns the command that checks a migration from the original operator.
func migrate(s *session.Session) *cobra.Command {
	var only bool
	c := &cobra.Command{
		Use:   "migrate --check",
		Short: "Check a migration from the original operator",
		Long: "Check a cluster that the original Windows Machine Config Operator manages: print what blocks the migration, what changes and what\n" +
			"stays. The command changes nothing. The exit code is 3 if something blocks the migration. To also check whether the kubelets of this\n" +
			"operator are compatible with the cluster, run wmco migrate --check from the operator's image.",
		Example: "  kubectl windows migrate --check",
		Args:    rejectArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if !only {
				return session.Failf(session.CodeUsage, "use %s --check: the operator takes over nodes automatically once it is installed", c.CommandPath())
			}
			current, server, err := readCluster(c.Context(), s)
			if err != nil {
				return err
			}
			found := migration.Assess(current)
			if err := migration.Write(s.Out, found); err != nil {
				return err
			}
			tooOld := &findings{}
			checkServer(tooOld, server)
			if migration.Blocked(found) || (*tooOld)[0].Remedy != "" {
				return session.Failf(session.CodeFindings, "the migration is blocked (the API server is %s)", server)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&only, "check", false, "Required. Check only, and change nothing.")
	return c
}
