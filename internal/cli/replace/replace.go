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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/cli/terminal"
	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
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
		Short: "Replace the Machines of a MachineSet by those of another one, one at a time",
		Long: "Replace the Windows Machines of a MachineSet by Machines of another one, for example with an image of a newer Windows Server. For each\n" +
			"Machine, the command scales the other MachineSet up by one, waits until all its Machines are nodes that have worked for --soak, and\n" +
			"scales the old MachineSet down by one. The Machine API then drains the node, respecting PodDisruptionBudgets, and deletes the Machine.\n\n" +
			"Only Machines whose pods have another place are removed: each pod that the drain would evict must match another node that takes pods by\n" +
			"its node selector, required affinity and tolerations, that node must be known to run its images, and a controller must recreate it. CPU,\n" +
			"memory and volumes are not considered. Hosts that are paused or in maintenance stay until they are not. Nothing is removed while\n" +
			"spec.rollout.paused of WindowsConfig is true. Maintenance windows of WindowsConfig do not apply: run the command within yours.\n\n" +
			"You can interrupt the command at any time. The next run continues with the same number of Machines, which is in annotation\n" +
			api.AnnotationReplaces + " of the other MachineSet.\n\n" +
			"You need permission to get and patch machinesets, to list and patch machines, and to list nodes, pods and windowsinstances.",
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
	c.Flags().IntVar(&o.machines, "machines", 0, "Number of Machines to replace in this run, for example 1 to begin with. 0 is all.")
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

	total, keep int
	// from, to and fleet are what was read last.
	from, to *unstructured.Unstructured
	fleet    fleetstatus.Input
	// deadline is when the current change must be complete. printed is the last line of progress.
	deadline time.Time
	printed  string
}

func (r *run) run(ctx context.Context) (err error) {
	if r.client, err = r.session.Client(); err != nil {
		return err
	}
	s, err := r.read(ctx)
	if err != nil {
		return err
	}
	_, hasBegun := r.to.GetAnnotations()[api.AnnotationReplaces]
	if s.from.replicas == 0 && !hasBegun {
		return session.Failf(session.CodeFailed, "MachineSet %s has no Machines: spec.replicas is 0", s.from.name)
	}
	if r.total, err = r.goal(s); err != nil {
		return err
	}
	if r.options.machines > 0 {
		r.keep = max(0, s.from.replicas-r.options.machines)
	}
	s.total, s.keep = r.total, r.keep
	if r.options.isDryRun {
		return r.show(ctx, s)
	}
	if !r.options.yes && s.from.replicas > s.keep {
		if err := r.session.Confirm(fmt.Sprintf("Replace %d of %s of MachineSet %s by those of MachineSet %s, one at a time, so that both have %d in the end?",
			s.from.replicas-s.keep, count(s.from.replicas), s.from.name, s.to.name, s.total)); err != nil {
			return err
		}
	}
	return r.loop(ctx)
}

// goal returns the number of Machines that both MachineSets have before and after each replacement.
func (r *run) goal(s state) (int, error) {
	have := s.from.replicas + s.to.replicas
	if r.options.total > 0 {
		return r.options.total, nil
	}
	value, isRecorded := r.to.GetAnnotations()[api.AnnotationReplaces]
	if !isRecorded {
		return have, nil
	}
	name, number, _ := strings.Cut(value, "/")
	total, err := strconv.Atoi(number)
	switch {
	case err != nil || total <= 0:
		return 0, session.Failf(session.CodeFailed, "MachineSet %s: annotation %s is %.64q; the name of a MachineSet and a number are required, as in %s/%d: correct or remove it",
			s.to.name, api.AnnotationReplaces, value, s.from.name, have)
	case name != s.from.name:
		return 0, session.Failf(session.CodeFailed, "MachineSet %s replaces MachineSet %.64s: complete that replacement first, or remove annotation %s", s.to.name, name, api.AnnotationReplaces)
	case have != total && have != total+1:
		return 0, session.Failf(session.CodeUsage, "both MachineSets have %d Machines in total, and had %d when the replacement began: set --total to the number that they should have in the end", have, total)
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
	return session.Explain(err, fmt.Sprintf("changing %s %s", o.GetKind(), o.GetName()))
}

func (r *run) scale(ctx context.Context, set *unstructured.Unstructured, replicas int) error {
	return r.change(ctx, set, func(set *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(set.Object, int64(replicas), "spec", "replicas") // spec is an object
	})
}

// readPause is the time between two reads.
const readPause = 3 * time.Second

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
	if err != nil {
		return wait, err
	}
	next := s.next()
	if record := r.record(); next.action != finish && r.to.GetAnnotations()[api.AnnotationReplaces] != record {
		return add, r.change(ctx, r.to, func(set *unstructured.Unstructured) { annotate(set, api.AnnotationReplaces, record) })
	}
	switch next.action {
	case add:
		if err := r.scale(ctx, r.to, next.replicas); err != nil {
			return wait, err
		}
		r.print(fmt.Sprintf("MachineSet %s is scaled up from %d to %d", s.to.name, s.to.replicas, next.replicas))
		return add, nil
	case remove:
		return r.remove(ctx, s, next.machines)
	case finish:
		return finish, r.finish(ctx, s)
	}
	r.print(next.message)
	return wait, nil
}

// remove removes one of the Machines.
func (r *run) remove(ctx context.Context, s state, machines []machine) (action, error) {
	if r.fleet.Config != nil && r.fleet.Config.Spec.Rollout.Paused {
		r.print("spec.rollout.paused of WindowsConfig is true: kubectl windows resume --all")
		return wait, nil
	}
	c, err := choose(machines, func(m machine) (string, error) { return r.staying(ctx, m) })
	switch {
	case err != nil:
		return wait, err
	case c.chosen != nil:
		return remove, r.delete(ctx, s, *c.chosen)
	case c.waits != "":
		r.print(c.waits)
		return wait, nil
	}
	return wait, session.Failf(session.CodeFindings, "no Machine of MachineSet %s can be removed, because these pods may find no other node: %s; "+
		"make their workloads movable (kubectl windows generations) and run the command again; MachineSet %s has %s meanwhile",
		s.from.name, truncate.Printable(truncate.List(c.kept, maxNamed, "; "), truncate.Reported), s.to.name, count(s.to.replicas))
}

// maxNamed limits the Machines that an error names.
const maxNamed = 3

// delete has the MachineSet delete a Machine.
func (r *run) delete(ctx context.Context, s state, m machine) error {
	if !m.isPreferred() {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(session.MachineAPI().WithKind("Machine"))
		if err := r.client.Get(ctx, client.ObjectKey{Namespace: session.MachineNamespace, Name: m.name}, o); err != nil {
			return session.Explain(err, "reading Machine "+m.name)
		}
		if err := r.change(ctx, o, func(o *unstructured.Unstructured) { annotate(o, annotationDelete, "true") }); err != nil {
			return err
		}
	}
	if err := r.scale(ctx, r.from, s.from.replicas-1); err != nil {
		return err
	}
	r.print(fmt.Sprintf("MachineSet %s is scaled down from %d to %d, and deletes Machine %s", s.from.name, s.from.replicas, s.from.replicas-1, m.name))
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
	line = truncate.Printable(line, truncate.Reported)
	if line != r.printed {
		r.printed = line
		fmt.Fprintf(r.session.Out, "%s  %s\n", time.Now().Format(time.TimeOnly), line)
	}
}

// show prints the Machines to replace, and what keeps them now.
func (r *run) show(ctx context.Context, s state) error {
	p := terminal.New(r.session.Out)
	p.Field("From", fmt.Sprintf("MachineSet %s with %s, then %d", s.from.name, count(s.from.replicas), s.keep))
	p.Field("To", fmt.Sprintf("MachineSet %s with %s, then %d", s.to.name, count(s.to.replicas), s.total-s.keep))
	var rows [][]string
	for _, m := range s.order() {
		kept := m.busy()
		if kept == "" {
			stay, err := r.staying(ctx, m)
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
