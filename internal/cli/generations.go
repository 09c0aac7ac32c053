package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/cli/terminal"
	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
	"github.com/windows-machine-config/wmco/internal/observe/generations"
	"github.com/windows-machine-config/wmco/internal/operator/lifecycle"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// generationsReport is the output of kubectl windows generations.
type generationsReport struct {
	generations.Report
	// Unread is what could not be read, so that workloads can be missing or be judged by less.
	Unread []fleetstatus.Unread `json:"unread,omitempty"`
}

type generationsOptions struct {
	output
	to                              string
	images, usePullSecrets, isCheck bool
	registries                      []string
	timeout                         time.Duration
}

// generation returns the command that shows which workloads can move to a newer build of Windows.
func generation(s *session.Session) *cobra.Command {
	var o generationsOptions
	c := &cobra.Command{
		Use:   "generations",
		Short: "Show which workloads can move to a newer Windows Server, and in which order hosts can be replaced",
		Long: "For each workload with pods for Windows nodes, show whether hosts with the target version of Windows Server run its images, and what\n" +
			"else keeps its pods off such hosts: a RuntimeClass, a node selector, a required affinity, an image's digest, or no controller. For each\n" +
			"host with an older version, show which workloads keep it, and when it can be replaced: First, if nothing keeps it; Later, while other\n" +
			"hosts can take the pods; Last, if it is the only host for some pods. CPU, memory and volumes are not considered. The command changes\n" +
			"nothing.\n\n" +
			"The command queries registries for the builds of Windows that images are for, each image once. It uses the credentials of docker login\n" +
			"or podman login, unless a credential helper stores them, those of the pods (--use-pull-secrets), and the variables HTTPS_PROXY and\n" +
			"NO_PROXY. It requires verified TLS, and spends at most 10 seconds on an image. A registry that limits requests, or does not respond\n" +
			"three times, is not queried again. If an image cannot be read, or with --images=false, the command uses what the cluster proves: a build\n" +
			"that a pod ran the image on.\n\n" +
			"Authors of pods choose the registries. Registries on this machine, or at addresses of a cloud's own services, are therefore not queried\n" +
			"unless --registry names them, and redirects are followed for image content only. Behind a proxy, the proxy decides where it connects.\n\n" +
			"You need permission to list nodes, pods, deployments, statefulsets, daemonsets, replicasets, jobs, cronjobs and runtimeclasses in all\n" +
			"namespaces, and to get secrets and serviceaccounts (--use-pull-secrets). With --check, the exit code is 3 if a workload cannot\n" +
			"move, or if this is not known.",
		Example: "  kubectl windows generations\n  kubectl windows generations --to 2022 --images=false\n" +
			"  kubectl windows generations --use-pull-secrets --check -o json",
		Args: rejectArguments,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context(), s) },
	}
	o.add(c, formatJSON, formatYAML)
	newest := windowsbuild.Releases()[len(windowsbuild.Releases())-1]
	c.Flags().StringVar(&o.to, "to", newest.Version, "Version of Windows Server to move to, as a year or a build such as "+newest.Build.Label()+".")
	c.Flags().BoolVar(&o.images, "images", true, "Query registries for the builds of Windows that images are for.")
	c.Flags().BoolVar(&o.usePullSecrets, "use-pull-secrets", false,
		"Read the pull secrets of pods and of their ServiceAccounts, and use them for their images.")
	c.Flags().StringArrayVar(&o.registries, "registry", nil,
		"Registry to query even if it is on this machine, such as localhost:5000; can be repeated.")
	c.Flags().DurationVar(&o.timeout, "timeout", 5*time.Minute, "How long to query registries. Images that are left are not queried.")
	c.Flags().BoolVar(&o.isCheck, "check", false, "Exit with 3 unless all workloads can move.")
	_ = c.RegisterFlagCompletionFunc("to", cobra.FixedCompletions(releaseVersions(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

// run reads the cluster and the registries, and prints the result.
func (o *generationsOptions) run(ctx context.Context, s *session.Session) error {
	target, err := targetOf(o.to)
	switch {
	case err != nil:
		return err
	case !o.images && (o.usePullSecrets || len(o.registries) > 0):
		return session.Failf(session.CodeUsage, "--use-pull-secrets and --registry have no effect with --images=false")
	case o.timeout <= 0:
		return session.Failf(session.CodeUsage, "--timeout is %s; a positive duration such as 5m is required", o.timeout)
	}
	c, err := s.Client()
	if err != nil {
		return err
	}
	r := clusterReader{client: c}
	cluster, err := r.read(ctx)
	if err != nil {
		return err
	}
	workloads := generations.Workloads(cluster)
	readings := generations.Readings{}
	if o.images {
		if readings, err = o.readImages(ctx, s, &r, workloads); err != nil {
			return err
		}
	}
	report := generationsReport{generations.Assess(cluster, target, workloads, readings, endsOfSupport()), r.unread}
	if err := o.show(s, report, func(p *terminal.Printer) { printGenerations(p, report) }); err != nil {
		return err
	}
	if o.isCheck && !report.isMovable() {
		return session.Failf(session.CodeFindings, "not all workloads can move to %s", target)
	}
	return nil
}

// isMovable reports whether all workloads can move, and none may be missing.
func (r generationsReport) isMovable() bool {
	for _, w := range r.Workloads {
		if w.State != generations.Movable {
			return false
		}
	}
	return len(r.Unread) == 0 && len(r.UnknownBuilds) == 0
}

// targetOf returns the build that a user names by the year of its release, by a version such as 10.0.26100, or by the build's number alone.
func targetOf(text string) (windowsbuild.Build, error) {
	for _, r := range windowsbuild.Releases() {
		if text == r.Version || text == r.Build.Label() || "10.0."+text == r.Build.Label() {
			return r.Build, nil
		}
	}
	return 0, session.Failf(session.CodeUsage, "--to is %.64q; nodes can run %s: name one by its year or its build, as in %s", text,
		strings.Join(releaseVersions(), ", "), windowsbuild.Server2022.Label())
}

func releaseVersions() (all []string) {
	for _, r := range windowsbuild.Releases() {
		all = append(all, r.Version)
	}
	return all
}

// endsOfSupport returns the last day of security updates of each release.
func endsOfSupport() map[windowsbuild.Build]time.Time {
	ends := map[windowsbuild.Build]time.Time{}
	for _, r := range windowsbuild.Releases() {
		if line, known := lifecycle.Of(lifecycle.WindowsServer, r.Version); known {
			ends[r.Build] = line.Ends
		}
	}
	return ends
}
