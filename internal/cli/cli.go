// Package cli implements the commands of kubectl windows. Each command reads the cluster with the user's permissions, lets internal/observe/fleetstatus
// evaluate it, and prints the result.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windows-machine-config/wmco/internal/cli/collect"
	"github.com/windows-machine-config/wmco/internal/cli/exec"
	"github.com/windows-machine-config/wmco/internal/cli/logs"
	"github.com/windows-machine-config/wmco/internal/cli/replace"
	"github.com/windows-machine-config/wmco/internal/cli/session"
)

// Root returns the command kubectl windows with all subcommands.
func Root(streams genericiooptions.IOStreams, version string) *cobra.Command {
	s := session.New(streams, version)
	root := &cobra.Command{
		Use:   "kubectl",
		Short: "Show and manage the Windows nodes of a cluster",
		Long: "Show the state of Windows nodes, what they wait for and what to do next, and manage their hosts.\n\n" +
			"Commands use your kubeconfig and your permissions.",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl windows"},
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return session.Failf(session.CodeUsage, "unknown command %q; see %s --help", args[0], c.CommandPath())
			}
			return nil
		},
		RunE:              func(c *cobra.Command, _ []string) error { return c.Help() },
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	s.AddFlags(root.PersistentFlags())
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return session.Failf(session.CodeUsage, "%w; see %s --help", err, c.CommandPath())
	})
	for _, group := range groups() {
		root.AddGroup(&cobra.Group{ID: group.id, Title: group.title})
		for _, command := range group.commands(s) {
			command.GroupID = group.id
			root.AddCommand(command)
		}
	}
	return root
}

type group struct {
	id, title string
	commands  func(*session.Session) []*cobra.Command
}

func groups() []group {
	return []group{
		{"see", "Inspection Commands:", func(s *session.Session) []*cobra.Command {
			return []*cobra.Command{status(s), describe(s), check(s), lint(s), generation(s), rehearse(s), policy(s), updates(s), plan(s), migrate(s), dashboard(s), version(s)}
		}},
		{"change", "Management Commands:", func(s *session.Session) []*cobra.Command {
			return []*cobra.Command{
				add(s), machineSet(s), replace.Command(s), userData(s), prepareImage(s), remove(s), pause(s, true), pause(s, false), retry(s), reboot(s), releaseHosts(s),
			}
		}},
		{"support", "Logs and Support Commands:", func(s *session.Session) []*cobra.Command {
			return []*cobra.Command{logs.Command(s), collect.Command(s), exec.Command(s)}
		}},
	}
}

// Run runs a command line and returns its exit code. It prints a failure as one line to the error stream.
func Run(ctx context.Context, args []string, streams genericiooptions.IOStreams, version string) int {
	log.SetLogger(logr.New(log.NullLogSink{})) // without it, controller-runtime writes a stack trace after 30 seconds
	root := Root(streams, version)
	root.SetArgs(args)
	err := root.ExecuteContext(klog.NewContext(ctx, logr.Discard())) // client-go would log what Run prints
	if err == nil {
		return session.CodeOK
	}
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) {
		return session.CodeFailed // the reader is gone
	}
	if text := err.Error(); text != "" {
		fmt.Fprintln(streams.ErrOut, "error: "+text)
	}
	return session.CodeOf(err)
}

func requireOneHost(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return session.Failf(session.CodeUsage, "%s requires one host: the name of its WindowsInstance or Node, or its address", c.CommandPath())
	}
	return nil
}

func requireHosts(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return session.Failf(session.CodeUsage, "%s requires hosts: names of WindowsInstances or Nodes, or addresses", c.CommandPath())
	}
	return nil
}

func rejectArguments(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return session.Failf(session.CodeUsage, "%s takes no arguments, got %q", c.CommandPath(), args[0])
	}
	return nil
}

func completeHosts(s *session.Session) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		in, err := s.Read(c.Context())
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var names []string
		for i := range in.Instances {
			names = append(names, in.Instances[i].Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
