package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
)

type action struct {
	s *session.Session
	// yes skips the confirmation.
	yes bool
	client.Client
	fleet     fleetstatus.Fleet
	namespace string
}

func (a *action) addYes(c *cobra.Command) {
	c.Flags().BoolVarP(&a.yes, "yes", "y", false, "Skip the confirmation prompt.")
}

func (a *action) read(ctx context.Context) (in fleetstatus.Input, err error) {
	if in, err = a.s.Read(ctx); err != nil {
		return in, err
	}
	a.fleet, a.namespace = fleetstatus.Of(in), in.Namespace
	a.Client, err = a.s.Client()
	return in, err
}

func (a *action) hosts(ctx context.Context, args []string) ([]fleetstatus.Host, error) {
	in, err := a.read(ctx)
	if err != nil {
		return nil, err
	}
	return a.find(in, args)
}

// find returns the named hosts of what was read.
func (a *action) find(in fleetstatus.Input, args []string) (hosts []fleetstatus.Host, err error) {
	for _, name := range args {
		h, found := a.fleet.Find(name)
		if !found {
			return nil, session.NotFound(name, in.Namespace, len(in.Instances))
		}
		hosts = append(hosts, h)
	}
	return hosts, nil
}

// checked returns the named hosts, or an error if check refuses any of them.
func (a *action) checked(ctx context.Context, args []string, check func(fleetstatus.Host) error) ([]fleetstatus.Host, error) {
	hosts, err := a.hosts(ctx, args)
	if err != nil {
		return nil, err
	}
	for _, h := range hosts {
		if err := check(h); err != nil {
			return nil, err
		}
	}
	return hosts, nil
}

func (a *action) annotate(ctx context.Context, hosts []fleetstatus.Host, annotation, outcome string) error {
	for _, h := range hosts {
		if err := a.change(ctx, h, outcome, func(i *v1alpha1.WindowsInstance) { metav1.SetMetaDataAnnotation(&i.ObjectMeta, annotation, "true") }); err != nil {
			return err
		}
	}
	return nil
}

// confirm asks the user for confirmation, unless --yes was given.
func (a *action) confirm(question string) error {
	if a.yes {
		return nil
	}
	return a.s.Confirm(question)
}

func (a *action) instance(ctx context.Context, h fleetstatus.Host) (*v1alpha1.WindowsInstance, error) {
	i := &v1alpha1.WindowsInstance{}
	err := a.Get(ctx, client.ObjectKey{Namespace: a.namespace, Name: h.Name}, i)
	return i, session.Explain(err, "reading WindowsInstance "+h.Name)
}

// change changes the WindowsInstance of a host. It writes nothing if nothing changes.
func (a *action) change(ctx context.Context, h fleetstatus.Host, outcome string, change func(*v1alpha1.WindowsInstance)) error {
	i, err := a.instance(ctx, h)
	if err != nil {
		return err
	}
	previous := i.DeepCopy()
	change(i)
	if err := a.Patch(ctx, i, client.MergeFrom(previous)); err != nil {
		return session.Explain(err, "changing WindowsInstance "+h.Name)
	}
	fmt.Fprintf(a.s.Out, "%s %s\n", resourceName(h.Name), outcome)
	return nil
}

// pause returns the command that stops the operator from starting actions, or, if paused is false, the one that resumes them.
func pause(s *session.Session, paused bool) *cobra.Command {
	a := &action{s: s}
	name, outcome, effect := "resume", "resumed", "Let the operator start actions again"
	if paused {
		name, outcome, effect = "pause", "paused", "Stop the operator from starting actions, such as joins, upgrades and removals. Actions in progress finish"
	}
	var all bool
	c := &cobra.Command{
		Use:               name + " HOST... | --all",
		Short:             map[bool]string{true: "Pause actions on hosts, or on all hosts", false: "Resume actions on hosts, or on all hosts"}[paused],
		Long:              effect + ".\n\nThe command sets spec.paused of the WindowsInstances or, with --all, spec.rollout.paused of WindowsConfig.",
		Example:           fmt.Sprintf("  kubectl windows %[1]s win-1 win-2\n  kubectl windows %[1]s --all", name),
		ValidArgsFunction: completeHosts(s),
		RunE: func(c *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return session.Failf(session.CodeUsage, "%s requires either hosts or --all", c.CommandPath())
			}
			hosts, err := a.hosts(c.Context(), args)
			if err != nil {
				return err
			}
			if all {
				return a.pauseAll(c.Context(), paused, outcome)
			}
			for _, h := range hosts {
				if err := a.change(c.Context(), h, outcome, func(i *v1alpha1.WindowsInstance) { i.Spec.Paused = paused }); err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&all, "all", false, "Apply to all hosts.")
	return c
}

func (a *action) pauseAll(ctx context.Context, paused bool, outcome string) error {
	config := &v1alpha1.WindowsConfig{}
	err := a.Get(ctx, client.ObjectKey{Name: api.WindowsConfigName}, config)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return session.Explain(err, "reading WindowsConfig "+api.WindowsConfigName)
	case err != nil && !paused:
	case err != nil:
		config = &v1alpha1.WindowsConfig{ObjectMeta: metav1.ObjectMeta{Name: api.WindowsConfigName}}
		config.Spec.Rollout.Paused = true
		err = a.Create(ctx, config)
	default:
		previous := config.DeepCopy()
		config.Spec.Rollout.Paused = paused
		err = a.Patch(ctx, config, client.MergeFrom(previous))
	}
	if client.IgnoreNotFound(err) != nil {
		return session.Explain(err, "changing WindowsConfig "+api.WindowsConfigName)
	}
	fmt.Fprintf(a.s.Out, "windowsconfig.%s/%s %s\n", api.GroupName, api.WindowsConfigName, outcome)
	return nil
}

func retry(s *session.Session) *cobra.Command {
	a := &action{s: s}
	return &cobra.Command{
		Use:   "retry HOST...",
		Short: "Retry a failed action",
		Long: "Request a retry of the failed action on hosts, with annotation " + api.AnnotationRetry + ".\n" +
			"If an upgrade then succeeds, the rollout to the other hosts continues.",
		Example:           "  kubectl windows retry win-1",
		Args:              requireHosts,
		ValidArgsFunction: completeHosts(s),
		RunE: func(c *cobra.Command, args []string) error {
			hosts, err := a.checked(c.Context(), args, func(h fleetstatus.Host) error {
				if h.Failure == nil && !retryRestartsHost(h) {
					return session.Failf(session.CodeFailed, "host %s has no failed action to retry: its state is %s (%s)", h.Name, h.State, h.Reason)
				}
				return nil
			})
			if err != nil {
				return err
			}
			return a.annotate(c.Context(), hosts, api.AnnotationRetry, "retry requested")
		},
	}
}

// retryRestartsHost reports whether retrying means restarting the host again.
func retryRestartsHost(h fleetstatus.Host) bool {
	return slices.ContainsFunc(h.Conditions, func(c fleetstatus.Condition) bool {
		return c.Object == "WindowsInstance" && c.Reason == api.ReasonRebootDidNotHelp
	})
}

func reboot(s *session.Session) *cobra.Command {
	a := &action{s: s}
	c := &cobra.Command{
		Use:   "reboot HOST...",
		Short: "Drain and restart hosts, within the budget",
		Long: "Request that the operator drain nodes and restart their hosts, with annotation " + api.AnnotationReboot + " of the Node.\n" +
			"The operator restarts as many at a time as spec.rollout.maxUnavailable of WindowsConfig allows.",
		Example:           "  kubectl windows reboot win-1",
		Args:              requireHosts,
		ValidArgsFunction: completeHosts(s),
		RunE: func(c *cobra.Command, args []string) error {
			hosts, err := a.hosts(c.Context(), args)
			if err != nil {
				return err
			}
			nodes, err := nodesOf(hosts)
			if err != nil {
				return err
			}
			if err := a.confirm("Drain and restart " + strings.Join(nodes, ", ") + "?"); err != nil {
				return err
			}
			for _, node := range nodes {
				if err := a.annotateNode(c.Context(), node, api.AnnotationReboot, "reboot requested"); err != nil {
					return err
				}
			}
			return nil
		},
	}
	a.addYes(c)
	return c
}

// nodesOf returns the names of the hosts' Nodes, or an error if one has none.
func nodesOf(hosts []fleetstatus.Host) (nodes []string, err error) {
	for _, h := range hosts {
		if h.Node == "" {
			return nil, session.Failf(session.CodeFailed, "host %s has no Node yet: its state is %s (%s)", h.Name, h.State, h.Reason)
		}
		nodes = append(nodes, h.Node)
	}
	return nodes, nil
}

// annotateNode sets an annotation of a Node to the current time.
func (a *action) annotateNode(ctx context.Context, name, annotation, outcome string) error {
	n := &corev1.Node{}
	if err := a.Get(ctx, client.ObjectKey{Name: name}, n); err != nil {
		return session.Explain(err, "reading Node "+name)
	}
	previous := n.DeepCopy()
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, annotation, time.Now().UTC().Format(time.RFC3339Nano))
	if err := a.Patch(ctx, n, client.MergeFrom(previous)); err != nil {
		return session.Explain(err, "changing Node "+name)
	}
	fmt.Fprintf(a.s.Out, "node/%s %s\n", name, outcome)
	return nil
}

func releaseHosts(s *session.Session) *cobra.Command {
	a := &action{s: s}
	c := &cobra.Command{
		Use:   "release HOST...",
		Short: "Remove unreachable hosts without cleaning them up",
		Long: "Let the operator finish the removal of hosts that cannot be reached, with annotation " + api.AnnotationRelease + ".\n" +
			"Everything that the operator installed stays on the hosts. Run kubectl windows remove first.",
		Example:           "  kubectl windows release win-3",
		Args:              requireHosts,
		ValidArgsFunction: completeHosts(s),
		RunE: func(c *cobra.Command, args []string) error {
			hosts, err := a.checked(c.Context(), args, func(h fleetstatus.Host) error {
				if h.State != fleetstatus.Leaving {
					return session.Failf(session.CodeFailed, "host %s is not being removed: run kubectl windows remove %s first", h.Name, h.Name)
				}
				return nil
			})
			if err != nil {
				return err
			}
			if err := a.confirm("Remove " + strings.Join(args, ", ") + " and leave everything the operator installed there?"); err != nil {
				return err
			}
			return a.annotate(c.Context(), hosts, api.AnnotationRelease, "released")
		},
	}
	a.addYes(c)
	return c
}
