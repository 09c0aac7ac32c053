package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/daemon/state"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/host"
)

// applying makes the host what a request says: in a join, which the operator asks for, or when the service finds that
// the cluster wants something else than it did.
type applying struct {
	host.Host
	// tell hears of each step as it begins.
	tell    func(agent.Step)
	request agent.JoinRequest
	// wanted is what the request wants of this host, with nothing left open.
	wanted desired.Node
	facts  agent.HostFacts
	// former is what was asked for before, formerWanted what that wanted of this host; empty on a fresh host.
	former       state.Record
	formerWanted desired.Node
	// hostname is the name that Windows shall have; empty keeps what it has.
	hostname string
	// restart are services which, when they run, must start anew, and why.
	restart map[string]string
	// outdated are files with keys of certificate requests that were made with a former bootstrap token.
	outdated []string

	// pulls is true when the service asks, false in a join.
	pulls bool

	step    string
	began   time.Time
	changed []string
	// rebooting is what takes effect with a restart of Windows, in words.
	rebooting []string
}

// applyStep is one step. It looks at what is there, and changes what is not as it should be.
type applyStep struct {
	name string
	do   func(context.Context) error
}

// newApplying refuses what could not become a node, or could leave its folders. It changes nothing yet.
func newApplying(h host.Host, request agent.JoinRequest) (*applying, error) {
	hostname := request.Hostname
	wanted, err := state.Record{JoinRequest: request}.Wanted()
	if err != nil {
		return nil, &agent.Error{Code: agent.CodeRequestInvalid, Message: err.Error()}
	}
	if err := checkRequest(request, wanted); err != nil {
		return nil, err
	}
	request.Register, request.Hostname = false, "" // asked for once, not part of what the host is to be
	return &applying{
		Host: h, tell: func(agent.Step) {}, request: request, wanted: wanted, hostname: hostname, restart: map[string]string{},
	}, nil
}

// run takes the steps in order, and ends with the first that fails. The caller holds the lock of commands.
func (a *applying) run(ctx context.Context, steps []applyStep) error {
	if err := a.remindFormer(); err != nil {
		return err
	}
	for _, s := range steps {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		a.step, a.began = s.name, time.Now()
		a.tell(agent.Step{Name: s.name})
		err := s.do(ctx)
		if errors.Is(err, errRebooting) {
			return err
		}
		if err != nil {
			state.Note(a.Disk, agent.JournalEntry{Time: a.began.UTC(), Step: s.name, Error: err.Error(), Duration: time.Since(a.began)})
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// did tells of a change: in the journal, to the operator, and in the result.
func (a *applying) did(format string, args ...any) {
	change := fmt.Sprintf(format, args...)
	a.changed = append(a.changed, change)
	state.Note(a.Disk, agent.JournalEntry{Time: a.began.UTC(), Step: a.step, Change: change, Duration: time.Since(a.began)})
	a.tell(agent.Step{Name: a.step + ": " + change})
}

// remindFormer reads what the host was made before. What cannot be made sense of counts as nothing: then all is new.
func (a *applying) remindFormer() (err error) {
	if a.former, err = state.ReadFormer(a.Disk); err != nil {
		return err
	}
	if a.formerWanted, err = a.former.Wanted(); err != nil {
		a.former, a.formerWanted = state.Record{}, desired.Node{}
	}
	return nil
}
