// Package replace implements kubectl windows replace: Machines of one MachineSet take the place of those of another one, such as one with an older
// version of Windows. It uses the permissions of its user; the operator has none to scale MachineSets. The cluster has the whole state of a
// replacement, so that another run can continue it.
package replace

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/cli/terminal"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

type options struct {
	from, to        string
	machines, total int
	soak, timeout   time.Duration
	isDryRun, yes   bool
}

// Command returns the command.
func Command(s *session.Session) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "replace MACHINESET --with MACHINESET",
		Short: "Replace the Machines of a MachineSet with those of another one, one at a time",
		Long: "Replace the Windows Machines of a MachineSet with Machines of another one, for example with an image of a newer Windows Server. For each\n" +
			"Machine, the command scales the other MachineSet up by one, waits until all its Machines are nodes that have worked for --soak, and\n" +
			"scales the old MachineSet down by one. The node is then drained, and the Machine deleted, as whenever a MachineSet is scaled down.\n\n" +
			"Only Machines whose pods have another place are removed: each pod that the drain would evict must match a node outside the old\n" +
			"MachineSet that takes pods, by its node selector, required affinity and tolerations; that node must be known to run its images; and a\n" +
			"controller must recreate the pod. CPU, memory and volumes are not considered. Paused hosts stay until they are resumed, and nothing is\n" +
			"removed while an old node is in maintenance or spec.rollout.paused of WindowsConfig is true. Maintenance windows of WindowsConfig do\n" +
			"not apply: run the command within yours. Nothing else may scale the MachineSets meanwhile: the command ends if something does.\n\n" +
			"You can interrupt the command at any time. The next run continues with the same number of Machines, which is in annotation\n" +
			api.AnnotationReplaces + " of the other MachineSet. To cancel a replacement, remove the annotation, and\n" +
			annotationDelete + " from Machines of the old MachineSet, and scale both MachineSets yourself.\n\n" +
			"You need permission to get and patch machinesets, to list and patch machines, to list nodes, pods and windowsinstances, and to get\n" +
			"windowsconfigs.",
		Example: "  kubectl windows replace windows-2022 --with windows-2025 --dry-run\n" +
			"  kubectl windows replace windows-2022 --with windows-2025 --machines 1",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return session.Failf(session.CodeUsage, "%s takes one argument, the name of the MachineSet whose Machines are replaced; got %q", c.CommandPath(), args)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			o.from = args[0]
			if err := o.check(); err != nil {
				return err
			}
			return (&run{session: s, options: o}).run(c.Context())
		},
	}
	c.Flags().StringVar(&o.to, "with", "", "Name of the MachineSet whose Machines take the place of the others.")
	c.Flags().IntVar(&o.machines, "machines", 0, "Number of Machines to replace in this run, for example 1 to begin with; one that an interrupted run was replacing counts. 0 is all.")
	c.Flags().IntVar(&o.total, "total", 0, "Number of Machines of both MachineSets before and after each replacement. Defaults to the number when the replacement began.")
	c.Flags().DurationVar(&o.soak, "soak", rollout.ReplacementSoak, "How long a new node must have worked before an old one is removed.")
	c.Flags().DurationVar(&o.timeout, "timeout", 2*time.Hour, "How long each new Machine may take to become a working node, and each old one to be deleted.")
	c.Flags().BoolVar(&o.isDryRun, "dry-run", false, "Show the Machines to replace and what keeps them, and change nothing.")
	c.Flags().BoolVarP(&o.yes, "yes", "y", false, "Skip the confirmation prompt.")
	return c
}

func (o options) check() error {
	switch {
	case o.to == "":
		return session.Failf(session.CodeUsage, "--with is required: name the MachineSet whose Machines take the place of the others")
	case o.to == o.from:
		return session.Failf(session.CodeUsage, "--with is %.64q, the MachineSet whose Machines are replaced: name another one", o.to)
	case o.soak >= o.timeout:
		return session.Failf(session.CodeUsage, "--timeout is %s; more than --soak, %s, is required", o.timeout, o.soak)
	case o.machines < 0 || o.total < 0 || o.soak < 0 || o.timeout <= 0:
		return session.Failf(session.CodeUsage, "--machines, --total and --soak must not be negative, and --timeout must be greater than zero")
	}
	return nil
}

// run is one run of the command.
type run struct {
	session *session.Session
	options options
	client  client.Client

	// namespace is the operator's.
	namespace   string
	total, keep int
	// from, to, nodes and isPaused are what was read last.
	from, to *unstructured.Unstructured
	nodes    []corev1.Node
	isPaused bool
	// fromReplicas and toReplicas are the replicas last read or written, began is how many both had at the beginning.
	fromReplicas, toReplicas, began int
	// deadline is when the current change must be complete. printed is the last line of progress.
	deadline time.Time
	printed  string
}

func (r *run) run(ctx context.Context) (err error) {
	if r.client, err = r.session.Client(); err != nil {
		return err
	}
	if r.namespace, err = r.session.OperatorNamespace(ctx); err != nil {
		return err
	}
	s, err := r.read(ctx)
	if err != nil {
		return err
	}
	if r.total, err = r.goal(s); err != nil {
		return err
	}
	r.fromReplicas, r.toReplicas, r.began = s.from.replicas, s.to.replicas, s.from.replicas+s.to.replicas
	have := max(s.from.replicas, len(s.from.machines)) // also one that an interrupted run has begun to replace
	if r.options.machines > 0 {
		r.keep = max(0, have-r.options.machines)
	}
	s.total, s.keep = r.total, r.keep
	if r.options.isDryRun {
		return r.show(ctx, s)
	}
	if !r.options.yes && have > s.keep {
		if err := r.session.Confirm(fmt.Sprintf("Replace %d of %s of MachineSet %s with those of MachineSet %s, one at a time, so that both have %d in the end?",
			have-s.keep, count(have), s.from.name, s.to.name, s.total)); err != nil {
			return err
		}
	}
	return r.loop(ctx)
}

// goal returns the number of Machines that both MachineSets have before and after each replacement.
func (r *run) goal(s state) (int, error) {
	if other, isReplacing := r.from.GetAnnotations()[api.AnnotationReplaces]; isReplacing {
		return 0, session.Failf(session.CodeFailed, "MachineSet %s itself replaces another one (annotation %s: %.64q): complete that replacement first, or remove the annotation",
			s.from.name, api.AnnotationReplaces, other)
	}
	have := s.from.replicas + s.to.replicas
	total, err := r.recorded(s.from.name, have)
	switch {
	case err != nil:
		return 0, err
	case r.options.total > 0:
		return r.options.total, nil
	case total == 0 && s.from.replicas == 0:
		return 0, session.Failf(session.CodeFailed, "MachineSet %s has no Machines: spec.replicas is 0", s.from.name)
	case total == 0:
		return have, nil
	case have > total+1:
		return 0, session.Failf(session.CodeUsage, "both MachineSets have %d Machines in total, and should have %d according to annotation %s: set --total to the number that they should have in the end",
			have, total, api.AnnotationReplaces)
	}
	return total, nil
}

// recorded returns the number of Machines that an earlier run has recorded; 0 if none has.
func (r *run) recorded(from string, have int) (int, error) {
	value, isRecorded := r.to.GetAnnotations()[api.AnnotationReplaces]
	if !isRecorded {
		return 0, nil
	}
	name, number, _ := strings.Cut(value, "/")
	total, err := strconv.Atoi(number)
	switch {
	case err != nil || total <= 0:
		return 0, session.Failf(session.CodeFailed, "MachineSet %s: annotation %s is %.64q; the name of a MachineSet and a number are required, as in %s/%d: correct or remove it",
			r.options.to, api.AnnotationReplaces, value, from, have)
	case name != from:
		return 0, session.Failf(session.CodeFailed, "MachineSet %s replaces MachineSet %.64q: complete that replacement first, or remove annotation %s", r.options.to, name, api.AnnotationReplaces)
	}
	return total, nil
}

// record returns the value of annotation replaces, which makes the number of Machines known to the next run.
func (r *run) record() string { return fmt.Sprintf("%s/%d", r.options.from, r.total) }

func annotate(o *unstructured.Unstructured, key, value string) {
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	o.SetAnnotations(annotations)
}

// change changes an object, unless it has changed since it was read.
func (r *run) change(ctx context.Context, o *unstructured.Unstructured, change func(*unstructured.Unstructured)) error {
	previous := o.DeepCopy()
	change(o)
	err := r.client.Patch(ctx, o, client.MergeFromWithOptions(previous, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		return err
	}
	return explain(err, fmt.Sprintf("changing %s %s", o.GetKind(), o.GetName()))
}

// scale scales a MachineSet. The new one records the replacement, too.
func (r *run) scale(ctx context.Context, set *unstructured.Unstructured, replicas int) error {
	err := r.change(ctx, set, func(set *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(set.Object, int64(replicas), "spec", "replicas") // spec is an object
		if set == r.to {
			annotate(set, api.AnnotationReplaces, r.record())
		}
	})
	switch {
	case err != nil:
	case set == r.to:
		r.toReplicas = replicas
	default:
		r.fromReplicas = replicas
	}
	return err
}

// readPause is the time between two reads.
const readPause = 2 * time.Second

// loop takes one step after another. It survives an API server that does not respond for a while.
func (r *run) loop(ctx context.Context) error {
	r.extend()
	for {
		taken, err := r.take(ctx)
		pause := readPause
		switch code := session.CodeOf(err); {
		case err == nil && taken == finish:
			return nil
		case err == nil && taken != wait:
			r.extend()
			continue
		case err == nil:
		case apierrors.IsConflict(err): // changed by another client: decide again
			pause = 0
		case code == session.CodeUnreachable || code == session.CodeTimeout:
			r.print(err.Error())
		default:
			return err
		}
		if time.Now().After(r.deadline) {
			return session.Failf(session.CodeTimeout, "timed out after %s: %s; run the command again to continue", r.options.timeout, r.printed)
		}
		select {
		case <-ctx.Done():
			return session.Failf(session.CodeFailed, "interrupted; run the command again to continue")
		case <-time.After(pause):
		}
	}
}

func (r *run) extend() { r.deadline = time.Now().Add(r.options.timeout) }

// take reads the cluster and takes the next step.
func (r *run) take(ctx context.Context) (action, error) {
	s, err := r.read(ctx)
	if err == nil {
		err = r.checkWriters(s)
	}
	if err != nil {
		return wait, err
	}
	switch next := s.next(); next.action {
	case add:
		if err := r.scale(ctx, r.to, s.to.replicas+1); err != nil {
			return wait, err
		}
		r.print(fmt.Sprintf("MachineSet %s is scaled up from %d to %d", s.to.name, s.to.replicas, s.to.replicas+1))
		return add, nil
	case remove:
		return r.remove(ctx, s, next.machines)
	case finish:
		return finish, r.finish(ctx, s)
	case refuse:
		return wait, session.Failf(session.CodeFailed, "%s", next.message)
	default:
		r.print(next.message)
		return wait, nil
	}
}

// checkWriters returns an error if another client scales the MachineSets: this command only scales the old one down, and the new one up.
func (r *run) checkWriters(s state) error {
	if s.from.replicas > r.fromReplicas || s.to.replicas < r.toReplicas || s.from.replicas+s.to.replicas > max(r.began, r.total+1) {
		return session.Failf(session.CodeFailed, "another client has scaled the MachineSets: %s from %d to %d, %s from %d to %d; stop what sets spec.replicas, and run the command again",
			s.from.name, r.fromReplicas, s.from.replicas, s.to.name, r.toReplicas, s.to.replicas)
	}
	r.fromReplicas, r.toReplicas = s.from.replicas, s.to.replicas
	return nil
}

// remove removes one of the Machines.
func (r *run) remove(ctx context.Context, s state, machines []machine) (action, error) {
	if r.isPaused {
		r.print("spec.rollout.paused of WindowsConfig is true: kubectl windows resume --all")
		return wait, nil
	}
	c, err := choose(machines, func(m machine) (string, error) { return r.staying(ctx, s, m) })
	switch {
	case err != nil:
		return wait, err
	case c.chosen != nil && c.chosen.isPreferred():
		return remove, r.delete(ctx, s, machines)
	case c.chosen != nil:
		// The MachineSet's controller must know the mark before it gets fewer replicas: the next step reads the Machine again.
		return wait, r.change(ctx, c.chosen.object, func(o *unstructured.Unstructured) { annotate(o, annotationDelete, "true") })
	case c.waits != "":
		r.print(c.waits)
		return wait, nil
	}
	return wait, session.Failf(session.CodeFindings, "no Machine of MachineSet %s can be removed, because these pods may find no other node: %s; "+
		"make their workloads movable (kubectl windows generations) and run the command again; MachineSet %s has %s meanwhile",
		s.from.name, truncate.Printable(truncate.List(c.kept, maxNamed, "; "), truncate.Reported), s.to.name, count(s.to.replicas))
}

// maxNamed limits the Machines that are named.
const maxNamed = 3

// delete has the MachineSet delete one of the Machines, which it prefers to others.
func (r *run) delete(ctx context.Context, s state, machines []machine) error {
	if err := r.scale(ctx, r.from, s.from.replicas-1); err != nil {
		return err
	}
	var names []string
	for _, m := range machines {
		names = append(names, m.name)
	}
	r.print(fmt.Sprintf("MachineSet %s is scaled down from %d to %d, and deletes Machine %s", s.from.name, s.from.replicas, s.from.replicas-1, truncate.List(names, maxNamed, " or ")))
	return nil
}

func (r *run) finish(ctx context.Context, s state) error {
	if s.from.replicas == 0 {
		if err := r.change(ctx, r.to, func(set *unstructured.Unstructured) {
			annotations := set.GetAnnotations()
			delete(annotations, api.AnnotationReplaces)
			set.SetAnnotations(annotations)
		}); err != nil {
			return err
		}
	}
	r.print(fmt.Sprintf("MachineSet %s has %s, MachineSet %s has %s", s.from.name, count(s.from.replicas), s.to.name, count(s.to.replicas)))
	return nil
}

// print prints a line of progress, unless it is the last one again.
func (r *run) print(line string) {
	line = truncate.Printable(strings.Join(strings.Fields(line), " "), truncate.Reported)
	if line != r.printed {
		r.printed = line
		fmt.Fprintf(r.session.Out, "%s  %s\n", time.Now().Format(time.TimeOnly), line)
	}
}

// show prints the old Machines, and what keeps them now.
func (r *run) show(ctx context.Context, s state) error {
	p := terminal.New(r.session.Out)
	p.Field("From", fmt.Sprintf("MachineSet %s with %s, then %d", s.from.name, count(s.from.replicas), s.keep))
	p.Field("To", fmt.Sprintf("MachineSet %s with %s, then %d", s.to.name, count(s.to.replicas), max(s.total-s.keep, 0)))
	if len(s.to.machines) == 0 {
		p.Field("Note", "which pods find another node is known once MachineSet "+s.to.name+" has a node; see also kubectl windows generations")
	}
	var rows [][]string
	for _, m := range s.from.machines {
		kept := m.busy()
		if kept == "" {
			stay, err := r.staying(ctx, s, m)
			if err != nil {
				return err
			}
			kept = cmp.Or(stay, "-")
		}
		version := ""
		if m.host != nil && m.host.Node != nil {
			version = m.host.Node.Build.String()
		}
		rows = append(rows, []string{m.name, m.node, version, truncate.Printable(kept, truncate.Reported)})
	}
	p.Table([]terminal.Column{{Name: "MACHINE", Weight: 3}, {Name: "NODE", Weight: 3}, {Name: "WINDOWS", Weight: 4}, {Name: "KEPT BY", Weight: 8}}, rows)
	return p.Err()
}
