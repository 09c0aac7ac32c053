package configure

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

// configurator makes the host what a request says: in a join, which the operator asks for, or when the service finds that
// the cluster wants something else than it did.
type configurator struct {
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

// step is one step. It looks at what is there, and changes what is not as it should be.
type step struct {
	name string
	do   func(context.Context) error
}

// newConfigurator refuses what could not become a node, or could leave its folders. It changes nothing yet.
func newConfigurator(h host.Host, request agent.JoinRequest) (*configurator, error) {
	hostname := request.Hostname
	wanted, err := state.Record{JoinRequest: request}.Wanted()
	if err != nil {
		return nil, &agent.Error{Code: agent.CodeRequestInvalid, Message: err.Error()}
	}
	if err := checkRequest(request, wanted); err != nil {
		return nil, err
	}
	request.Register, request.Hostname = false, "" // asked for once, not part of what the host is to be
	return &configurator{
		Host: h, tell: func(agent.Step) {}, request: request, wanted: wanted, hostname: hostname, restart: map[string]string{},
	}, nil
}

// run takes the steps in order, and ends with the first that fails. The caller holds the lock of commands.
func (c *configurator) run(ctx context.Context, steps []step) error {
	if err := c.remindFormer(); err != nil {
		return err
	}
	for _, s := range steps {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		c.step, c.began = s.name, time.Now()
		c.tell(agent.Step{Name: s.name})
		err := s.do(ctx)
		if errors.Is(err, errRebooting) {
			return err
		}
		if err != nil {
			state.Note(c.Disk, agent.JournalEntry{Time: c.began.UTC(), Step: s.name, Error: err.Error(), Duration: time.Since(c.began)})
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// recordChange tells of a change: in the journal, to the operator, and in the result.
func (c *configurator) recordChange(format string, args ...any) {
	change := fmt.Sprintf(format, args...)
	c.changed = append(c.changed, change)
	state.Note(c.Disk, agent.JournalEntry{Time: c.began.UTC(), Step: c.step, Change: change, Duration: time.Since(c.began)})
	c.tell(agent.Step{Name: c.step + ": " + change})
}

// remindFormer reads what the host was made before. What cannot be made sense of counts as nothing: then all is new.
func (c *configurator) remindFormer() (err error) {
	if c.former, err = state.ReadFormer(c.Disk); err != nil {
		return err
	}
	if c.formerWanted, err = c.former.Wanted(); err != nil {
		c.former, c.formerWanted = state.Record{}, desired.Node{}
	}
	return nil
}

// pullSteps are how a node becomes what the cluster wants now, in order: those of a join that concern what is the same
// for all nodes. A join that was cut goes on where these end, and the other way round.
func (c *configurator) pullSteps() []step {
	return []step{
		{"making folders", c.makeFolders},
		{"authorizing keys", c.tryKeys},
		{"linking programs", c.linkPrograms},
		{"writing configuration", c.writeFiles},
		{"setting the environment", c.setEnvironment},
		{"trusting certificates", c.trustCertificates},
		{"opening the firewall", c.openFirewall},
		{"remembering the request", c.remember},
		{"starting services", c.startOthers},
		{"removing old versions", c.removeOldVersions},
		{"completing", c.complete},
	}
}

// Pull makes the host what the cluster wants now.
type Pull struct{ c *configurator }

// NewPull refuses what could not become a node, as a join does. It changes nothing yet.
func NewPull(h host.Host, request agent.JoinRequest) (Pull, error) {
	c, err := newConfigurator(h, request)
	if err != nil {
		return Pull{}, err
	}
	c.pulls = true
	return Pull{c}, nil
}

// Run takes the steps of a pull. The caller holds the lock of commands.
func (p Pull) Run(ctx context.Context) error { return p.c.run(ctx, p.c.pullSteps()) }
