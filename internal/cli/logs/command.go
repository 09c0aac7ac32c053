// Package logs implements kubectl windows logs: it reads service logs and event logs of Windows nodes through the API server.
package logs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/windows-machine-config/wmco/internal/cli/nodefiles"
	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/cli/terminal"
	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
)

type options struct {
	follow, list bool
	since        time.Duration
	tail         int
}

// Command returns the command kubectl windows logs.
func Command(s *session.Session) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "logs HOST[,HOST...] [LOG...]",
		Short: "Print service logs and event logs of hosts",
		Long: "Print logs of hosts through their kubelets: logs of services (wicd, kubelet, containerd, kube-proxy, hybrid-overlay-node, flanneld,\n" +
			"windows_exporter, csi-proxy), event logs of Windows (System, Application, hns, hcs, dns, ssh), or any file below C:\\var\\log by its\n" +
			"path. Defaults to the logs wicd, kubelet, containerd, kube-proxy and System. Use all to select all hosts.\n\n" +
			"Only the end of a log is read, however large it is. You need permission to get nodes/proxy.",
		Example: "  kubectl windows logs win-1 kubelet -f\n  kubectl windows logs win-1,win-2 containerd System --since 10m\n" +
			"  kubectl windows logs all wicd --tail 5\n  kubectl windows logs win-1 --list\n  kubectl windows logs win-1 eventlog/System.log",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return session.Failf(session.CodeUsage, "%s requires a host; see %s --help", c.CommandPath(), c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if o.tail < -1 || o.since < 0 {
				return session.Failf(session.CodeUsage, "--tail must be -1 or more, and --since must not be negative")
			}
			if !c.Flags().Changed("tail") && o.since > 0 {
				o.tail = -1
			}
			return run(c.Context(), s, o, args[0], args[1:])
		},
	}
	c.Flags().BoolVarP(&o.follow, "follow", "f", false, "Print new lines as they are written.")
	c.Flags().BoolVar(&o.list, "list", false, "Only list the available files.")
	c.Flags().DurationVar(&o.since, "since", 0, "Only print lines that are not older than this, such as 10m or 2h. At most the last 64 MiB of a log are searched.")
	c.Flags().IntVar(&o.tail, "tail", 50, "Number of existing lines to print; -1 for all.")
	return c
}

func run(ctx context.Context, s *session.Session, o options, hosts string, names []string) error {
	optional := len(names) == 0
	if optional {
		names = defaultLogs()
	}
	files := map[string]string{}
	for _, name := range names {
		file, err := FileOf(name)
		if err != nil {
			return err
		}
		files[name] = file
	}
	nodes, err := nodesOf(ctx, s, strings.Split(hosts, ","))
	if err != nil {
		return err
	}
	config, err := s.Config()
	if err != nil {
		return err
	}
	client, err := nodefiles.New(config)
	if err != nil {
		return err
	}
	if o.list {
		return list(ctx, s, client, nodes)
	}
	v := &viewer{session: s, printer: terminal.New(s.Out), several: len(nodes)*len(names) > 1}
	var streams []*stream
	for _, node := range nodes {
		for _, name := range names {
			st := &stream{client: client, node: node, file: files[name], tail: o.tail, timeout: config.Timeout}
			if o.since > 0 {
				st.since = time.Now().Add(-o.since)
			}
			st.show = v.lines(node, name)
			streams = append(streams, st)
		}
	}
	return v.run(ctx, streams, o.follow, optional)
}

// nodesOf returns the names of the hosts' Nodes. If WindowsInstances cannot be read, the hosts are named by their Nodes.
func nodesOf(ctx context.Context, s *session.Session, hosts []string) (nodes []string, err error) {
	var fleet fleetstatus.Fleet
	in, err := s.Read(ctx)
	if err == nil {
		fleet = fleetstatus.Of(in)
	}
	if slices.Contains(hosts, "all") {
		if err != nil {
			return nil, err
		}
		hosts = slices.DeleteFunc(hosts, func(host string) bool { return host == "all" })
		for _, h := range fleet.Hosts {
			if h.Node != "" {
				hosts = append(hosts, h.Name)
			}
		}
	}
	for _, host := range hosts {
		node, err := session.NodeOf(fleet, host)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(nodes, node) {
			nodes = append(nodes, node)
		}
	}
	if len(nodes) == 0 {
		return nil, session.Failf(session.CodeNotFound, "no host has a Node yet")
	}
	return nodes, nil
}

type viewer struct {
	session *session.Session
	printer *terminal.Printer
	several bool
	count   int
	mu      sync.Mutex
}

// lines returns a function that prints lines of one log. With several logs, a prefix names the log.
func (v *viewer) lines(node, name string) func(string) error {
	prefix := ""
	if v.several {
		colors := []terminal.Style{terminal.Good, terminal.Warn, terminal.Bold, terminal.Faint, terminal.Bad}
		prefix = v.printer.Styled(colors[v.count%len(colors)], "["+node+" "+name+"]") + " "
		v.count++
	}
	return func(line string) error {
		v.mu.Lock()
		defer v.mu.Unlock()
		_, err := fmt.Fprintln(v.session.Out, prefix+printable(line))
		return err
	}
}

func (v *viewer) warn(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	fmt.Fprintln(v.session.ErrOut, "warning: "+err.Error())
}

const atOnce = 16

// run shows the existing lines, one log after another, and then follows all logs concurrently. Optional logs may be absent.
func (v *viewer) run(ctx context.Context, streams []*stream, follow, optional bool) error {
	var failures []error
	absent, kept := 0, streams[:0:0]
	for at, buffered := range v.read(ctx, streams) {
		for _, line := range buffered.lines {
			if err := streams[at].show(line); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(buffered.err, nodefiles.ErrAbsent) && optional:
			absent++
			continue
		case buffered.err != nil:
			failures = append(failures, buffered.err)
			continue
		}
		kept = append(kept, streams[at])
	}
	if len(kept) == 0 {
		if len(failures) == 0 {
			return session.Failf(session.CodeNotFound, "no logs yet (%d files do not exist); use --list to see the available files", absent)
		}
		return failures[0]
	}
	for _, err := range failures {
		v.warn(err)
	}
	if !follow {
		if len(failures) > 0 {
			return session.Failf(session.CodeOf(failures[0]), "%d of %d logs could not be read", len(failures), len(streams))
		}
		return nil
	}
	return v.follow(ctx, kept)
}

type buffered struct {
	lines []string
	err   error
}

// read reads all logs, several at a time. A single log is printed without buffering.
func (v *viewer) read(ctx context.Context, streams []*stream) []buffered {
	found := make([]buffered, len(streams))
	if len(streams) == 1 {
		found[0].err = streams[0].print(ctx)
		return found
	}
	slots := make(chan struct{}, atOnce)
	var work sync.WaitGroup
	for i, s := range streams {
		work.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			show := s.show
			s.show = func(line string) error { found[i].lines = append(found[i].lines, line); return nil }
			found[i].err = s.print(ctx)
			s.show = show
		})
	}
	work.Wait()
	return found
}

func (v *viewer) follow(ctx context.Context, streams []*stream) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	results := make(chan error, len(streams))
	for _, s := range streams {
		go func() { results <- s.follow(ctx, v.warn) }()
	}
	var first error
	for range streams {
		if err := <-results; err != nil && first == nil {
			first = err
			end()
		}
	}
	return first
}

func list(ctx context.Context, s *session.Session, client *nodefiles.Client, nodes []string) error {
	for _, node := range nodes {
		folders, err := client.List(ctx, node, "")
		if err != nil {
			return err
		}
		for _, folder := range folders {
			names := []string{folder}
			if strings.HasSuffix(folder, "/") && !slices.Contains([]string{"pods/", "containers/"}, folder) {
				below, err := client.List(ctx, node, folder)
				if err != nil {
					return err
				}
				names = names[:0]
				for _, name := range below {
					names = append(names, folder+name)
				}
			}
			for _, name := range names {
				if len(nodes) > 1 {
					name = node + " " + name
				}
				if _, err := fmt.Fprintln(s.Out, printable(name)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
