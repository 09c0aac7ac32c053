// Wmco-acceptance tests assumptions about Windows on a real machine, reverts its changes, and writes report.json and report.md
// (docs/acceptance.md). make acceptance builds it.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/windows-machine-config/wmco/internal/node/win"
	"github.com/windows-machine-config/wmco/internal/testing/acceptance"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailed  = 1 // refused, or incomplete
	exitUsage   = 2
	exitRefuted = 3 // a line was refuted
	// exitRestarting means that Windows restarts and that the service continues afterwards.
	exitRestarting = 4
)

// archive is the name of the file with the report and the logs.
const archive = "wmco-acceptance.zip"

func main() {
	if code, isChild := win.Child(os.Args[1:], os.Stdin, os.Stdout, os.Stderr); isChild {
		os.Exit(code)
	}
	if known, err := acceptance.Command(os.Args[1:], os.Stdin, os.Stdout); known {
		var code acceptance.Exit
		if errors.As(err, &code) {
			os.Exit(int(code))
		}
		exit(err, exitFailed)
	}
	if program, err := os.Executable(); err == nil && acceptance.IsService(program) {
		exit(serve(), exitFailed)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout)
	stop()
	os.Exit(code)
}

func exit(err error, code int) {
	if err == nil {
		os.Exit(exitOK)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(code)
}

type flags struct {
	plan, restore, onWine, join, restartAllowed, networkCutAllowed, loginAllowed, updatesAllowed, asService, inService bool
	only, out, files, user, home, image, mirror, network                                                               string
	imagePort                                                                                                          uint
}

func parse(args []string, out io.Writer) (f flags, err error) {
	set := flag.NewFlagSet("wmco-acceptance", flag.ContinueOnError)
	set.SetOutput(out)
	set.BoolVar(&f.plan, "plan", false, "print what would be tested and changed, without changing anything")
	set.BoolVar(&f.restore, "restore", false, "revert the changes of an interrupted run, without testing anything")
	set.BoolVar(&f.onWine, "on-wine", false, "this is Wine: test the program itself")
	set.StringVar(&f.only, "only", "", "comma-separated `ids` of the lines to test; defaults to all")
	set.BoolVar(&f.join, "join", false, "join this machine to a control plane that runs on it, and remove it again, instead of testing the lines")
	set.StringVar(&f.files, "files", "", "`folder` with the files for --join, as built by make acceptance JOIN=1; defaults to folder join next to this program")
	set.StringVar(&f.user, "user", os.Getenv("USERNAME"), "`administrator` of this machine that the operator logs in as with --join")
	set.StringVar(&f.image, "image", "", "`image` of the pod of --join, with its registry; defaults to the sandbox image")
	set.UintVar(&f.imagePort, "image-port", 0, "`port` at which --image serves HTTP, to test pod traffic")
	set.StringVar(&f.mirror, "mirror", "", "`host:port` of a registry without TLS that has the images of --join; defaults to their own registries")
	set.StringVar(&f.network, "network", acceptance.Flannel, "`network` of the pods of --join: flannel or ovn")
	set.BoolVar(&f.restartAllowed, "restart-allowed", false, "let --join restart Windows: to enable feature Containers, and once as a node")
	set.BoolVar(&f.networkCutAllowed, "network-cut-allowed", false, "also test lines that cut the network of this machine, for up to several minutes")
	set.BoolVar(&f.loginAllowed, "login-allowed", false, "log in to the SSH server of this machine as --user, with a temporary key, and with each shell")
	set.BoolVar(&f.updatesAllowed, "updates-allowed", false, "install pending Microsoft Defender definitions through the Windows Update Agent; they remain installed")
	set.BoolVar(&f.asService, "as-service", false, "run in a temporary service; implied by --join and --network-cut-allowed")
	set.BoolVar(&f.inService, "in-service", false, "this is the temporary service")
	set.StringVar(&f.home, "home", "", "`home folder` of the user; defaults to that of this session")
	set.StringVar(&f.out, "out", ".", "`folder` for report.json and report.md")
	if err := set.Parse(args); err != nil {
		return f, err
	}
	if set.NArg() > 0 {
		err = fmt.Errorf("unknown argument %q; see --help", set.Arg(0))
	}
	if err == nil && f.network != acceptance.Flannel && f.network != acceptance.OVN {
		err = fmt.Errorf("--network is %q, want %s or %s", f.network, acceptance.Flannel, acceptance.OVN)
	}
	if err == nil && (f.imagePort > math.MaxUint16 || f.imagePort > 0 && f.image == "") {
		err = fmt.Errorf("--image-port is %d, want a port of the image that --image names", f.imagePort)
	}
	if err == nil && f.restartAllowed && !f.join {
		err = errors.New("--restart-allowed requires --join: nothing else restarts Windows")
	}
	if err == nil && f.join && f.only != "" {
		err = errors.New("--only cannot be used with --join, whose steps depend on each other")
	}
	if err != nil {
		fmt.Fprintln(out, err)
	}
	return f, err
}

// allowed returns the permissions that the flags give.
func (f flags) allowed() (permissions []string) {
	for _, p := range []struct {
		isGiven bool
		name    string
	}{
		{f.networkCutAllowed, acceptance.NetworkCut}, {f.loginAllowed, acceptance.Login}, {f.updatesAllowed, acceptance.Updates},
		{f.restartAllowed, acceptance.RestartAllowed},
	} {
		if p.isGiven {
			permissions = append(permissions, p.name)
		}
	}
	return permissions
}

func run(ctx context.Context, args []string, out io.Writer) int {
	f, err := parse(args, out)
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	if err != nil {
		return exitUsage
	}
	if f.plan {
		if f.join {
			fmt.Fprint(out, acceptance.JoinPlan())
			return exitOK
		}
		fmt.Fprint(out, acceptance.Plan(acceptance.Lines()))
		return exitOK
	}
	code, err := try(ctx, f, out)
	if err != nil {
		fmt.Fprintln(out, "wmco-acceptance:", err)
	}
	return code
}

func try(ctx context.Context, f flags, out io.Writer) (int, error) {
	m, err := machine()
	if err != nil {
		return exitFailed, err
	}
	m.Home = f.home
	o := acceptance.Options{
		Version: version(), OnWine: f.onWine, Out: out, InService: f.inService, User: f.user, Names: []string{f.user, filepath.Base(f.home)}, Allowed: f.allowed(),
		Report: func(r acceptance.Report) error { return write(f.out, r) },
	}
	if f.only != "" {
		o.Only = strings.Split(f.only, ",")
	}
	if f.restore {
		left, err := acceptance.Restore(ctx, m, o)
		if err != nil {
			return exitFailed, err
		}
		if !left {
			fmt.Fprintln(out, "no changes of an earlier run are left")
		}
		return exitOK, nil
	}
	if f.needsService() {
		args, err := f.forService(m.Program)
		if err != nil {
			return exitFailed, err
		}
		code, err := acceptance.Detach(ctx, m, o, args)
		if err != nil {
			return exitFailed, err
		}
		return code, nil
	}
	r, err := tryOrJoin(ctx, m, o, f)
	if errors.Is(err, acceptance.ErrRestarting) {
		return exitRestarting, err
	}
	if len(r.Facts) > 0 {
		err = errors.Join(err, finish(f.out, r, out))
	}
	if err != nil {
		return exitFailed, err
	}
	if r.Refuted() {
		return exitRefuted, nil
	}
	return exitOK, nil
}

func tryOrJoin(ctx context.Context, m acceptance.Machine, o acceptance.Options, f flags) (acceptance.Report, error) {
	if !f.join {
		return acceptance.Run(ctx, m, o)
	}
	files := cmp.Or(f.files, filepath.Join(filepath.Dir(m.Program), "join"))
	return acceptance.Join(ctx, m, acceptance.JoinOptions{
		Options: o, Files: files, User: f.user, Image: f.image, ImagePort: uint16(f.imagePort), Mirror: f.mirror, Network: f.network,
	})
}

// machine returns the local machine. Processes that this program starts end with it.
func machine() (acceptance.Machine, error) {
	h, err := win.Host()
	if err != nil {
		return acceptance.Machine{}, err
	}
	if err := win.Contain(); err != nil {
		return acceptance.Machine{}, err
	}
	program, err := os.Executable()
	if err != nil {
		return acceptance.Machine{}, err
	}
	e := win.ThisEdition()
	m := acceptance.Machine{Host: h, Wine: e.Wine, Desktop: e.Desktop, Elevated: e.Elevated, Program: program, Programs: map[string][]byte{}, Kill: killProcess}
	programs, err := fs.Glob(embedded(), "programs/*.gz")
	for _, name := range programs {
		content, readErr := fs.ReadFile(embedded(), name)
		err = errors.Join(err, readErr)
		m.Programs[strings.TrimSuffix(filepath.Base(name), ".exe.gz")] = content
	}
	return m, err
}

func killProcess(pid uint32) error {
	p, err := os.FindProcess(int(pid))
	if err != nil {
		return err
	}
	return errors.Join(p.Kill(), p.Release())
}

// write writes the report and replaces an existing one.
func write(folder string, r acceptance.Report) error {
	text, err := r.JSON()
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(folder, "report.json"), text, 0o600),
		os.WriteFile(filepath.Join(folder, "report.md"), []byte(r.Summary()), 0o600),
	)
}

func finish(folder string, r acceptance.Report, out io.Writer) error {
	content, err := r.Archive()
	if err != nil {
		return err
	}
	name := filepath.Join(folder, archive)
	if err := os.WriteFile(name, content, 0o600); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%s\nRead %s, and attach it to a new issue at %s.\n", r.Summary(), name, acceptance.Issues)
	return nil
}
