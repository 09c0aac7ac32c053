package acceptance

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// Options are the options of a run.
type Options struct {
	// Version of this program, for the report.
	Version string
	// Only are the IDs of the lines to test; all if empty.
	Only []string
	// Allowed lists the permissions beyond what every run changes: NetworkCut, Login, Updates, RestartAllowed.
	Allowed []string
	// User is the user that probes log in as.
	User string
	// Names are additional names that the report hides. Those of this machine and of the user who runs the program are always hidden.
	Names []string
	// InService is set in the temporary service of Detach.
	InService bool
	// OnWine allows Wine, and nothing else.
	OnWine bool
	// Out receives progress messages.
	Out io.Writer
	// Report, if set, receives the report after each line, so that an interrupted run leaves its results.
	Report func(Report) error
}

// NetworkCut allows probes that interrupt the network of the machine temporarily.
const NetworkCut = "network-cut"

// Login allows the probe that logs in to the SSH server of the machine and changes its default shell temporarily.
const Login = "login"

// Updates allows the probe that installs definitions of Microsoft Defender, which stay installed.
const Updates = "updates"

// probeTimeout limits the time of a line. The contract tests are the slowest.
const probeTimeout = 15 * time.Minute

// session is one run on a machine.
type session struct {
	Machine
	out     io.Writer
	journal *journal
	redact  *redactor
	facts   wicdapi.HostFacts
	// factsFailure is why some facts could not be read.
	factsFailure error
	tests        []TestResult // nil before they ran
	// recorded receives facts of probes. allowed lists the changes that the user allows beyond those of every run.
	recorded func(Fact)
	allowed  []string
	user     string
	// inService is Options.InService.
	inService bool
}

func (s *session) printf(format string, values ...any) {
	fmt.Fprintf(s.out, format+"\n", values...)
}

// change makes a change to the machine, after printing it and writing it to the journal.
func (s *session) change(c change, do func() error) error {
	if err := c.check(); err != nil {
		return err
	}
	if err := s.journal.add(c); err != nil {
		return err
	}
	s.printf("  changing: %s", c)
	return do()
}

// folder creates an empty folder of that name below Root.
func (s *session) folder(ctx context.Context, name string) (string, error) {
	folder := Root + `\` + name
	return folder, s.change(change{kindFolder, name}, func() error {
		if err := s.removeFolder(ctx, folder); err != nil {
			return err
		}
		_, err := s.Host.Disk.MakeFolder(folder)
		return err
	})
}

// removeFolder removes a folder. It first ends the programs that run from it, because Windows would keep their files.
func (s *session) removeFolder(ctx context.Context, folder string) error {
	if _, err := s.Host.Containers.EndPrograms(ctx, folder); err != nil {
		return err
	}
	return s.Host.Disk.RemoveAll(folder)
}

// Run tests the lines on a machine, reverts its changes, and returns its report. Changes of an earlier run are reverted first. ErrRefused means that
// nothing was changed; the report then has facts, too. With any other error, the report is incomplete, or something could not be reverted.
func Run(ctx context.Context, m Machine, o Options) (Report, error) {
	lines, err := selected(o.Only)
	if err != nil {
		return Report{}, err
	}
	s, release, err := open(ctx, m, o)
	if err != nil {
		return refuse(ctx, m, o, err)
	}
	defer release()
	r, err := s.begin(ctx, o)
	if err != nil {
		return r, err
	}
	if err := m.refuseNode(ctx); err != nil {
		err = errors.Join(s.end(ctx, &r, o, err), s.close())
		return r, err
	}
	s.recorded = func(f Fact) {
		r.Facts = append(r.Facts, f)
		_ = o.report(r) // the error returns with the report after the line
	}
	s.printf("%s\n", Plan(lines))
	for _, l := range lines {
		if ctx.Err() != nil {
			break
		}
		r.Lines = append(r.Lines, s.try(ctx, l))
		r.Tests = s.hiddenTests()
		if err := errors.Join(s.journal.failure, s.failedUndo(&r), o.report(r)); err != nil {
			return r, err
		}
	}
	err = errors.Join(s.end(ctx, &r, o, context.Cause(ctx)), s.close())
	return r, err
}

// begin undoes the changes of an earlier run, and starts a report with the facts.
func (s *session) begin(ctx context.Context, o Options) (Report, error) {
	if err := s.undoAll(ctx); err != nil {
		return Report{}, err
	}
	r := newReport(o.Version)
	err := s.collect(ctx, &r, o.report)
	return r, err
}

// end adds the logs to a report and passes it on. reason is the error with which the run ended.
func (s *session) end(ctx context.Context, r *Report, o Options, reason error) error {
	if errors.Is(reason, ErrRefused) {
		r.Refused = s.redact.text(reason.Error())
	}
	if reason == nil || r.Refused != "" {
		r.Finished = time.Now().UTC()
	}
	s.addLogs(context.WithoutCancel(ctx), r)
	return errors.Join(reason, o.report(*r))
}

// refuse returns the report of a machine on which nothing is tried, since its facts can still show why. If another run is active, that run writes the
// report.
func refuse(ctx context.Context, m Machine, o Options, reason error) (Report, error) {
	if !errors.Is(reason, ErrRefused) || errors.Is(reason, hostapi.ErrLocked) || m.Wine != o.OnWine {
		return Report{}, reason
	}
	s, err := newSession(m, o)
	if err != nil {
		return Report{}, errors.Join(reason, err)
	}
	r := newReport(o.Version)
	if err := s.collect(ctx, &r, o.report); err != nil {
		return r, errors.Join(reason, err)
	}
	reason = s.end(ctx, &r, o, reason)
	return r, reason
}

// newSession returns a session without a journal.
func newSession(m Machine, o Options) (*session, error) {
	salt := make([]byte, 32)
	if _, err := rand.Read(salt); err != nil {
		return nil, fmt.Errorf("creating the salt of the report: %w", err)
	}
	return &session{Machine: m, out: o.Out, redact: newRedactor(salt, append(namesHere(), o.Names...)...), user: o.User, allowed: o.Allowed, inService: o.InService}, nil
}

func (o Options) report(r Report) error {
	if o.Report == nil {
		return nil
	}
	return o.Report(r)
}

// Restore undoes the changes of an earlier run and does nothing else. left is false if there were none.
func Restore(ctx context.Context, m Machine, o Options) (left bool, err error) {
	if err := m.refuseEdition(o); err != nil {
		return false, err
	}
	if !m.Host.Disk.Exists(Root) {
		return false, nil
	}
	s, release, err := open(ctx, m, o)
	if err != nil {
		return false, err
	}
	defer release()
	left = len(s.journal.changes) > 0
	if err := errors.Join(s.undoAll(ctx), s.Host.Disk.Remove(resumeFile)); err != nil {
		return left, err
	}
	return left, s.close()
}

// open locks the machine for this process and reads the journal of an earlier run.
func open(ctx context.Context, m Machine, o Options) (*session, func(), error) {
	if err := m.refuseEdition(o); err != nil {
		return nil, nil, err
	}
	if !m.Host.Disk.Exists(Root) { // after an earlier run, the changes in its journal may look like a node
		if err := m.refuseNode(ctx); err != nil {
			return nil, nil, err
		}
	}
	if _, err := m.Host.Rights.MakeFolder(Root, hostapi.Private); err != nil {
		return nil, nil, fmt.Errorf("making the folder of the journal: %w", err)
	}
	ours, _, err := m.Host.Rights.Check(Root, hostapi.Private)
	if err == nil && !ours && !m.Wine { // Wine does not return rights exactly as they were set
		err = errors.New("users who are not administrators can change it: check its content and remove it")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: folder %s: %w", ErrRefused, Root, err)
	}
	release, err := m.Host.System.Lock(lockFile)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: another run is in progress: %w", ErrRefused, err)
	}
	j, err := readJournal(m.Host.Disk)
	if err != nil {
		release()
		return nil, nil, err
	}
	s, err := newSession(m, o)
	if err != nil {
		release()
		return nil, nil, err
	}
	s.journal = j
	return s, func() {
		release()
		if len(j.changes) == 0 && !m.Host.Disk.Exists(resumeFile) {
			_ = m.Host.Disk.RemoveAll(Root) // Windows keeps a locked file
		}
	}, nil
}

// close removes the journal unless it still has changes, such as the service in which this process runs.
func (s *session) close() error {
	if len(s.journal.changes) > 0 {
		return nil
	}
	return s.Host.Disk.Remove(journalFile)
}

// failedUndo undoes all changes, and adds failures to the report.
func (s *session) failedUndo(r *Report) error {
	err := s.undoAll(context.Background())
	if err != nil {
		r.Left = append(r.Left, strings.Split(s.redact.text(err.Error()), "\n")...)
	}
	return err
}

// try returns the answer to one line.
func (s *session) try(ctx context.Context, l Line) Answer {
	a := Answer{ID: l.ID, Title: l.Title, Claim: l.Claim}
	s.printf("%s: %s (at %s)", l.ID, l.Title, time.Now().Format(time.TimeOnly))
	began := time.Now()
	switch {
	case l.Reason != "":
		a.Verdict, a.Seen = Untried, l.Reason
	case l.Needs != "" && !slices.Contains(s.allowed, l.Needs):
		a.Verdict, a.Seen = Untried, "it requires --"+l.Needs+"-allowed"
	default:
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		seen, err := s.probe(ctx, l)
		cancel()
		if errors.Is(err, ErrRestarting) {
			return a
		}
		a.setVerdict(seen, err)
		a.Seconds = time.Since(began).Round(time.Millisecond).Seconds()
	}
	s.printf("  %s after %.0f s: %s", a.Verdict, a.Seconds, strings.ReplaceAll(a.Seen, "\n", "\n    "))
	a.Seen = s.redact.text(a.Seen)
	return a
}

func (s *session) probe(ctx context.Context, l Line) (string, error) {
	if l.Try != nil {
		return l.Try(ctx, s)
	}
	if s.tests == nil {
		if err := s.runTests(ctx); err != nil {
			return "", untriedErrorf("the tests did not run: %w", err)
		}
	}
	return testsResult(s.tests, l.Tests)
}

// selected returns the lines with these IDs, or all if there are none.
func selected(ids []string) ([]Line, error) {
	lines := Lines()
	if len(ids) == 0 {
		return lines, nil
	}
	for _, id := range ids {
		if !slices.ContainsFunc(lines, func(l Line) bool { return l.ID == id }) {
			return nil, fmt.Errorf("--only names %q, which is not the ID of a line: --plan lists them", id)
		}
	}
	return slices.DeleteFunc(lines, func(l Line) bool { return !slices.Contains(ids, l.ID) }), nil
}
