package overlay

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// Call is one start of the program.
type Call struct {
	// Args are the flags, without the name of the program.
	Args           []string
	Stdout, Stderr io.Writer
	// HNS opens the Host Network Service.
	HNS func() (HNS, error)
	// Routes accesses the routes of this host.
	Routes Routes
	// Adapters accesses the network interfaces of this host.
	Adapters Adapters
	// Dial connects to the API server; nil means the network of this machine.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Serve runs the service under the control of Windows, which stops it through the context.
	Serve func(run func(context.Context)) error
}

// command is the result of parsing the flags.
type command struct {
	options   Options
	asService bool
	logFile   string
	logLevel  int
}

// debugLevel is the lowest --loglevel that logs details.
const debugLevel = 5

// Main runs the program and returns the exit code: 0 if it was stopped, 1 if it could not work.
func Main(ctx context.Context, call Call) int {
	c, err := parse(call)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		logStartFailure(call.Args, err)
	} else {
		err = c.run(ctx, call)
	}
	if err != nil {
		fmt.Fprintln(call.Stderr, err)
		return 1
	}
	return 0
}

// logStartFailure logs an error of the flags to the log file, if at least that flag can be parsed: a service has no standard error.
func logStartFailure(args []string, failure error) {
	name := ""
	for i, arg := range args {
		flagName, value, hasValue := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch {
		case !strings.HasPrefix(arg, "-") || flagName != "logfile":
		case hasValue:
			name = value
		case i+1 < len(args):
			name = args[i+1]
		}
	}
	if name == "" {
		return
	}
	f, err := openLog(name)
	if err != nil {
		return // there is no other place to report it
	}
	defer f.Close()
	slog.New(slog.NewJSONHandler(f, nil)).Error("Starting failed: correct the flags of the service", "error", failure.Error())
}

// parse parses the flags. Their names and meanings are those of OVN-Kubernetes' program of the same name, except --interface, which is an addition.
func parse(call Call) (command, error) {
	var c command
	var port uint
	var cluster, hybrid string
	o := &c.options
	flags := flag.NewFlagSet("hybrid-overlay-node", flag.ContinueOnError)
	flags.SetOutput(call.Stderr)
	flags.Usage = func() {} // see below
	flags.StringVar(&o.Node, "node", "", "name of this host's Node")
	flags.StringVar(&o.BootstrapKubeconfig, "bootstrap-kubeconfig", "", "kubeconfig of the kubelet, whose identity requests the first certificate")
	flags.StringVar(&o.CertDir, "cert-dir", "", "folder for the certificate and the state of the program")
	flags.StringVar(&o.StatusFile, "status-file", "", "file for the problems of the overlay, which WICD reports on the Node; default: none")
	flags.DurationVar(&o.CertDuration, "cert-duration", 24*time.Hour, "requested duration of the certificate")
	flags.StringVar(&o.Server, "k8s-apiserver", "", "address of the API server; default: that of the kubeconfig")
	flags.StringVar(&o.CAFile, "k8s-cacert", "", "file with the certificate of the API server's CA; default: that of the kubeconfig")
	flags.UintVar(&port, "hybrid-overlay-vxlan-port", hns.DefaultVXLANPort, "UDP port of VXLAN; a port other than 4789 requires a build of Windows after 17763")
	flags.StringVar(&cluster, "cluster-subnets", "", "ranges of the subnets of Linux nodes, separated by commas, such as 10.128.0.0/14 or 10.128.0.0/14/23; the prefix length of a node is accepted and ignored")
	flags.StringVar(&hybrid, "hybrid-overlay-cluster-subnets", "", "ranges of the subnets of the hybrid overlay's nodes, in the same form; Linux nodes have routes to the first IPv4 range only")
	flags.StringVar(&o.Settings.Adapter, "interface", "", "name of the network interface for the overlay; default: Windows chooses one")
	flags.BoolVar(&c.asService, "windows-service", false, "run as a Windows service")
	flags.StringVar(&c.logFile, "logfile", "", "file for the log; default: standard error")
	flags.IntVar(&c.logLevel, "loglevel", 4, fmt.Sprintf("log level; from %d, details are logged", debugLevel))
	if err := flags.Parse(call.Args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			flags.SetOutput(call.Stdout)
		}
		fmt.Fprint(flags.Output(), "hybrid-overlay-node connects the pods of this Windows host with those of other nodes through the hybrid overlay of OVN-Kubernetes.\n\nFlags:\n")
		flags.PrintDefaults()
		return c, err
	}
	if flags.NArg() > 0 {
		return c, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if port == 0 || port > 65535 {
		return c, fmt.Errorf("flag --hybrid-overlay-vxlan-port is %d; a port from 1 to 65535 is needed", port)
	}
	o.Settings.VXLANPort = uint16(port)
	var err error
	if o.Settings.Ranges.Cluster, err = parseRanges(cluster); err != nil {
		return c, fmt.Errorf("flag --cluster-subnets: %w", err)
	}
	if o.Settings.Ranges.Hybrid, err = parseRanges(hybrid); err != nil {
		return c, fmt.Errorf("flag --hybrid-overlay-cluster-subnets: %w", err)
	}
	return c, o.check()
}

// run works in this console, or as a service.
func (c command) run(ctx context.Context, call Call) error {
	out := call.Stderr
	if c.logFile != "" {
		f, err := openLog(c.logFile)
		if err != nil {
			return fmt.Errorf("opening the log: %w", err)
		}
		defer f.Close()
		out = f
	}
	level := slog.LevelInfo
	if c.logLevel >= debugLevel {
		level = slog.LevelDebug
	}
	c.options.Log = slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level}))
	networks, err := call.HNS()
	if err != nil {
		c.options.Log.Error("Opening the Host Network Service failed", "error", err.Error())
		return err
	}
	c.options.HNS, c.options.Routes, c.options.Adapters, c.options.Dial = networks, call.Routes, call.Adapters, call.Dial
	if !c.asService {
		Run(ctx, c.options)
		return nil
	}
	return call.Serve(func(ctx context.Context) { Run(ctx, c.options) })
}

// openLog opens the log for appending. WICD may truncate it to rotate it; later records are then at its beginning.
func openLog(name string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
}
