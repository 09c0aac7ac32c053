// Package collect implements kubectl windows collect. It writes one archive for support, with the state that hosts collect about themselves and
// data from the API server. It reads no Secret.
package collect

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/internal/cli/nodefiles"
	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
	"github.com/windows-machine-config/wmco/internal/shared/mask"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

type options struct {
	file     string
	timeout  time.Duration
	parallel int
	all      bool
	force    bool
}

// Command returns the command kubectl windows collect.
func Command(s *session.Session) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "collect [HOST...]",
		Short: "Collect the state of hosts and of the operator into an archive for support",
		Long: "Ask hosts for archives of their state, download them through the API server, and add objects of the cluster: WindowsInstances,\n" +
			"WindowsConfig, Windows nodes, events, and the operator with its log. Secrets are neither read nor collected; manifest.json lists what\n" +
			"is in the archive, what is missing and why.\n\n" +
			"If a host does not respond, the command collects the ends of its logs, if its kubelet serves them. You need permission to patch\n" +
			"windowsinstances and to get nodes/proxy; without hosts, only permission to read.",
		Example: "  kubectl windows collect win-1\n  kubectl windows collect --all -o case-42.zip\n  kubectl windows collect",
		RunE: func(c *cobra.Command, hosts []string) error {
			if o.all && len(hosts) > 0 {
				return session.Failf(session.CodeUsage, "hosts and --all are mutually exclusive")
			}
			if o.timeout <= 0 || o.parallel < 1 {
				return session.Failf(session.CodeUsage, "--timeout and --parallel must be greater than zero")
			}
			return run(c.Context(), s, o, hosts)
		},
	}
	c.Flags().StringVarP(&o.file, "output", "o", "", "File to write. Defaults to wmco-collect-<time>.zip in the current folder.")
	c.Flags().DurationVar(&o.timeout, "timeout", 2*time.Minute, "Deadline for each host.")
	c.Flags().IntVar(&o.parallel, "parallel", 32, "Number of hosts to collect from at the same time.")
	c.Flags().BoolVar(&o.all, "all", false, "Collect from all hosts that have a Node.")
	c.Flags().BoolVar(&o.force, "force", false, "Collect from a host even if another collection from it is in progress; its archive is lost.")
	return c
}

type collector struct {
	options
	session *session.Session
	client  *nodefiles.Client
	kube    client.Client
	id      string
	// namespace is the operator's.
	namespace string
	archive   *archive
	masker    *mask.Masker

	mu sync.Mutex
}

func run(ctx context.Context, s *session.Session, o options, names []string) error {
	in, err := s.Read(ctx)
	if err != nil {
		return err
	}
	fleet := fleetstatus.Of(in)
	hosts, err := choose(fleet, names, o.all)
	if err != nil {
		return err
	}
	config, err := s.Config()
	if err != nil {
		return err
	}
	c := &collector{options: o, session: s, namespace: fleet.Namespace, masker: mask.New(config.BearerToken, config.Password, string(config.KeyData))}
	if c.client, err = nodefiles.New(config); err != nil {
		return err
	}
	if c.kube, err = s.Client(); err != nil {
		return err
	}
	now := time.Now().UTC()
	c.id = newID(now)
	if c.file == "" {
		c.file = "wmco-collect-" + now.Format("20060102-150405") + ".zip"
	}
	if c.archive, err = newArchive(c.file, now, s.Version); err != nil {
		return session.Failf(session.CodeFailed, "creating %s: %w", c.file, err)
	}
	defer c.archive.abandon()
	c.cluster(ctx, fleet, config.Timeout)
	failed := c.hosts(ctx, hosts)
	if ctx.Err() != nil {
		return session.Failf(session.CodeFailed, "interrupted; %s was not written", c.file)
	}
	size, err := c.archive.finish()
	if err != nil {
		return session.Failf(session.CodeFailed, "writing %s: %w", c.file, err)
	}
	if _, err := fmt.Fprintf(s.Out, "%s: %s from %d of %d hosts\n", c.file, bytes(size), len(hosts)-failed, len(hosts)); err != nil {
		return err
	}
	if failed > 0 {
		return session.Failf(session.CodeFindings, "%d of %d hosts sent no archive; see manifest.json", failed, len(hosts))
	}
	return nil
}

func choose(fleet fleetstatus.Fleet, names []string, all bool) (hosts []fleetstatus.Host, err error) {
	if all {
		for _, h := range fleet.Hosts {
			if h.Node != "" {
				hosts = append(hosts, h)
			}
		}
		return hosts, nil
	}
	seen := map[string]bool{}
	for _, name := range names {
		h, found := fleet.Find(name)
		if !found {
			return nil, session.NotFound(name, fleet.Namespace, len(fleet.Hosts))
		}
		if h.Node == "" {
			return nil, session.Failf(session.CodeNotFound, "host %s has no Node yet, so its state cannot be read; run kubectl windows describe %s", name, h.Name)
		}
		if !seen[h.Name] {
			hosts = append(hosts, h)
		}
		seen[h.Name] = true
	}
	return hosts, nil
}

// newID returns the collection's name. It is unique even if two users start in the same second.
func newID(now time.Time) string {
	return now.Format("20060102-150405") + "-" + rand.String(8)
}

func (c *collector) printProgress(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintln(c.session.ErrOut, truncate.Printable(fmt.Sprintf(format, args...), truncate.Note))
}

// hosts collects from several hosts at a time and returns how many failed.
func (c *collector) hosts(ctx context.Context, hosts []fleetstatus.Host) (failed int) {
	slots := make(chan struct{}, c.parallel)
	var work sync.WaitGroup
	for _, h := range hosts {
		work.Go(func() {
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
			case <-ctx.Done():
				return
			}
			report := c.host(ctx, h)
			c.mu.Lock()
			if report.Error != "" {
				failed++
			}
			c.mu.Unlock()
			c.archive.report(report)
			if report.Error != "" {
				c.printProgress("%s: %s", h.Name, report.Error)
				return
			}
			c.printProgress("%s: %s", h.Name, bytes(report.Bytes))
		})
	}
	work.Wait()
	return failed
}

func bytes(n int64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}
