package daemon

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/windows-machine-config/wmco/internal/node/daemon/configure"
	"github.com/windows-machine-config/wmco/internal/node/daemon/logrotate"
	"github.com/windows-machine-config/wmco/internal/node/daemon/store"
	"github.com/windows-machine-config/wmco/internal/node/daemon/update"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// Call is one start of the program.
type Call struct {
	// Args are the command and its flags, without the name of the program.
	Args           []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Host opens the machine. Commands that need it call it once.
	Host func() (hostapi.Host, error)
	// Path is the full path of the running executable; empty when unknown.
	Path string
	// Program opens the running executable.
	Program func() (io.ReadCloser, error)
	// Serve runs the service under the control of Windows, which ends it through the context. If run returns earlier, its exit code is the
	// service's.
	Serve func(run func(context.Context) (exitCode uint32)) error
	// Contain ensures that the processes that this one starts end with it, however it ends.
	Contain func() error
}

// command is one command of the program.
type command struct {
	name, about string
	run         func(context.Context, Call, *flag.FlagSet) int
}

func commands() []command {
	return []command{
		{wicdapi.CommandFacts, "print facts about this host; changes nothing", facts},
		{wicdapi.CommandReach, "check whether this host can reach the API server: request as one line of JSON on standard input; changes nothing", reach},
		{wicdapi.CommandReceive, "receive content into the store: list as one line of JSON on standard input, then the missing bytes", receive},
		{wicdapi.CommandPrepare, "enable Windows features on this host, and pull the sandbox image, before an image is taken of it: request as one line of JSON on standard input", prepare},
		{wicdapi.CommandJoin, "make this host a node: request as one line of JSON on standard input", join},
		{wicdapi.CommandLeave, "remove everything that the operator installed on this host: request as one line of JSON on standard input", leave},
		{wicdapi.CommandRestart, "restart this host, unless it has already restarted since the given boot: request as one line of JSON on standard input", restart},
		{wicdapi.CommandInstallUpdates, "have the service install Windows updates: request as one line of JSON on standard input", installUpdates},
		{wicdapi.CommandStatus, "print the state of services and certificates, and the last changes; changes nothing", status},
		{"update", "complete an update of this host or roll it back; runs as a service", updateCommand},
		{"run", "keep this host in the state that the last join requested, until stopped", run},
		{"host", "run an ordinary program as a service: host [flags] -- <program> [arguments]", hostCommand},
	}
}

// Main runs one command and returns the exit code: 0 when it succeeded, 1 otherwise.
func Main(ctx context.Context, c Call) int {
	if len(c.Args) == 0 {
		usage(c.Stderr)
		return 1
	}
	name := c.Args[0]
	if name == "help" || name == "-h" || name == "-help" || name == "--help" {
		usage(c.Stdout)
		return 0
	}
	for _, command := range commands() {
		if command.name == name {
			return command.start(ctx, c)
		}
	}
	var names []string
	for _, command := range commands() {
		names = append(names, command.name)
	}
	fmt.Fprintf(c.Stderr, "unknown command %q; the commands are %s\n", name, strings.Join(names, ", "))
	return 1
}

func usage(w io.Writer) {
	fmt.Fprintln(w, "WICD configures this Windows host as a node of a cluster, and keeps it configured.\n\nUsage: windows-instance-config-daemon <command> [flags]")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-15s %s\n", c.name, c.about)
	}
	fmt.Fprintln(w, "\nAll commands except update, run and host write lines of JSON to standard output: steps, then one result or one error.")
}

// start defines the command's flags, parses them, and runs the command.
func (c command) start(ctx context.Context, call Call) int {
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	flags.SetOutput(call.Stderr)
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "windows-instance-config-daemon %s [flags]\n\n%s\n", c.name, c.about)
		flags.PrintDefaults()
	}
	return c.run(ctx, call, flags)
}

// parse parses the flags. done means that the command must exit, with the given code.
func parse(call Call, flags *flag.FlagSet) (code int, done bool) {
	if code, done := parseFlags(call, flags); done {
		return code, true
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(call.Stderr, "unexpected argument %q\n", flags.Arg(0))
	}
	return 1, flags.NArg() > 0
}

// parseFlags is like parse, but allows further arguments.
func parseFlags(call Call, flags *flag.FlagSet) (code int, done bool) {
	usage := flags.Usage
	flags.Usage = func() {} // its output depends on the result
	err := flags.Parse(call.Args[1:])
	if err == nil {
		return 0, false
	}
	defer usage()
	if errors.Is(err, flag.ErrHelp) {
		flags.SetOutput(call.Stdout)
		return 0, true
	}
	return 1, true
}

// runSession runs a command of the protocol with the operator.
func runSession(ctx context.Context, call Call, flags *flag.FlagSet, do func(*wicdapi.Session, hostapi.Host) (any, error)) int {
	input := flags.String(wicdapi.FlagInput, "", "folder to create next to the program, and to read input files from; default: standard input")
	if code, done := parse(call, flags); done {
		return code
	}
	s := wicdapi.NewSession(call.Stdin, call.Stdout)
	h, err := call.Host()
	if err != nil {
		return s.End(nil, err)
	}
	if *input == "" {
		return s.End(do(s, h))
	}
	stdin, remove, err := inputs{host: h, beside: hostapi.Parent(call.Path)}.open(ctx, *input)
	if err != nil {
		return s.End(nil, err)
	}
	s = wicdapi.NewSession(stdin, call.Stdout)
	result, err := do(s, h)
	if removeErr := remove(); err == nil && removeErr != nil {
		err = fmt.Errorf("removing the files of the input: %w", removeErr)
	}
	return s.End(result, err)
}

func facts(ctx context.Context, call Call, flags *flag.FlagSet) int {
	cloud := flags.String(wicdapi.FlagPlatform, "", "platform whose metadata service provides the host's name: AWS or GCP")
	return runSession(ctx, call, flags, func(_ *wicdapi.Session, h hostapi.Host) (any, error) {
		program, err := call.Program()
		if err != nil {
			return nil, fmt.Errorf("opening the program: %w", err)
		}
		defer program.Close()
		sum, err := store.HashOf(program)
		if err != nil {
			return nil, fmt.Errorf("hashing the program: %w", err)
		}
		return Facts(ctx, h, sum, *cloud)
	})
}

func reach(ctx context.Context, call Call, flags *flag.FlagSet) int {
	return runSession(ctx, call, flags, func(s *wicdapi.Session, h hostapi.Host) (any, error) {
		var request wicdapi.ReachRequest
		if err := s.Request(&request); err != nil {
			return nil, err
		}
		return Reach(ctx, h, request)
	})
}

func receive(ctx context.Context, call Call, flags *flag.FlagSet) int {
	return runSession(ctx, call, flags, func(s *wicdapi.Session, h hostapi.Host) (any, error) { return store.Receive(ctx, s, h, call.Program) })
}

func prepare(ctx context.Context, call Call, flags *flag.FlagSet) int {
	return runSession(ctx, call, flags, func(s *wicdapi.Session, h hostapi.Host) (any, error) { return configure.Prepare(ctx, s, h) })
}

func join(ctx context.Context, call Call, flags *flag.FlagSet) int {
	return runSession(ctx, call, flags, func(s *wicdapi.Session, h hostapi.Host) (any, error) { return configure.Join(ctx, s, h) })
}

func leave(ctx context.Context, call Call, flags *flag.FlagSet) int {
	return runSession(ctx, call, flags, func(s *wicdapi.Session, h hostapi.Host) (any, error) { return configure.Leave(ctx, s, h, call.Path) })
}

func restart(ctx context.Context, call Call, flags *flag.FlagSet) int {
	return runSession(ctx, call, flags, func(s *wicdapi.Session, h hostapi.Host) (any, error) { return Restart(ctx, s, h) })
}

func installUpdates(ctx context.Context, call Call, flags *flag.FlagSet) int {
	return runSession(ctx, call, flags, func(s *wicdapi.Session, h hostapi.Host) (any, error) { return InstallUpdates(ctx, s, h) })
}

func status(ctx context.Context, call Call, flags *flag.FlagSet) int {
	return runSession(ctx, call, flags, func(_ *wicdapi.Session, h hostapi.Host) (any, error) { return Status(ctx, h) })
}

// run runs the service; without the flag, it does the same in a console.
func run(ctx context.Context, call Call, flags *flag.FlagSet) int {
	return serve(ctx, call, flags, func(ctx context.Context, h hostapi.Host, log *slog.Logger) { Run(ctx, h, RunOptions{Log: log}) })
}

func updateCommand(ctx context.Context, call Call, flags *flag.FlagSet) int {
	return serve(ctx, call, flags, func(ctx context.Context, h hostapi.Host, log *slog.Logger) {
		if err := update.Update(ctx, h, log); err != nil && ctx.Err() == nil {
			log.Error("Update interrupted; it continues when the service starts again", "error", err.Error())
		}
	})
}

// service is the work of a command that runs as a service.
type service func(ctx context.Context, h hostapi.Host, log *slog.Logger)

func serve(ctx context.Context, call Call, flags *flag.FlagSet, do service) int {
	asService, logName := serviceFlags(flags)
	if code, done := parse(call, flags); done {
		return code
	}
	if err := runService(ctx, call, *asService, *logName, do); err != nil {
		fmt.Fprintln(call.Stderr, err)
		return 1
	}
	return 0
}

func serviceFlags(flags *flag.FlagSet) (asService *bool, logName *string) {
	return flags.Bool("windows-service", false, "run as a Windows service"),
		flags.String("log-file", "", `log file, such as C:\var\log\wicd\wicd.log; default: standard error`)
}

func runService(ctx context.Context, call Call, asService bool, logName string, do service) error {
	h, err := call.Host()
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewJSONHandler(call.Stderr, nil))
	if logName != "" {
		log := logrotate.OpenLogger(h.Disk, logName)
		defer log.Close()
		logger = slog.New(log.Handler)
	}
	if !asService {
		do(ctx, h, logger)
		return nil
	}
	return call.Serve(func(ctx context.Context) uint32 {
		do(ctx, h, logger)
		return 0
	})
}
