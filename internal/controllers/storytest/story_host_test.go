package storytest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/controllers/instance"
	"github.com/windows-machine-config/wmco/internal/controllers/sshkey"
	"github.com/windows-machine-config/wmco/internal/remote"
)

// storyHost is a Windows host in a story: what it answers to the operator, and how it goes on by itself.
type storyHost struct {
	story   *story
	name    string
	address string
	key     ssh.PublicKey

	state    string // as it was when it went on last
	off      bool   // no power
	unheard  bool   // by the API server; its pods run, and SSH works
	sick     string // a service beside its kubelet does not work
	pending  string // what Windows waits for a restart for; empty when for nothing
	bootID   int
	backAt   time.Time // when a restart is over
	cluster  string    // that it has joined
	version  string    // that it runs
	staged   bool
	offered  []agent.Content // of the last transfer
	joinedAt time.Time
	joins    int      // how often it was joined
	left     int      // how often it was made to leave
	deaf     int      // how many joins it takes for its kubelet to work
	keys     []string // that it lets in, as lines of authorized_keys
	ignores  string   // the one of them that its OpenSSH does not take
	// signingKey is the one that it was told in its last join.
	signingKey string
	// ofCloud says that a cloud initializes its node.
	ofCloud bool
	// others says that the original operator configured the host.
	others bool
	// losesPower has the next join end when the services run, before the host writes down that it has joined; unfinished says that it did.
	losesPower, unfinished bool

	// goes says when it comes to which version, worked for how long.
	goesTo string
	goesAt time.Time
	// node is the address of its node, where that is another one.
	node string
	// says is what the host says of itself, where that is not the truth.
	says func(*agent.HostFacts)
	// restarts has each join end with a restart of Windows, for which it has to be repeated.
	restarts bool
	// hesitates is what WICD answers to a join for the time being.
	hesitates func(agent.JoinRequest) error
	// token is the last one that it was handed.
	token string
	// refuses is a version that does not work here.
	refuses string
	refused string
	// obeyed is the last order to go to a version that it obeyed. obeysAnybody says that its WICD is an older one, which needs no order.
	obeyed struct {
		uid    types.UID
		serial int64
	}
	obeysAnybody bool
	// registrations counts the Nodes that its kubelet made.
	registrations int
	// awaits says what Windows waits for a restart for, as WICD finds it; nil where the story itself tells the Node. late is how long after
	// a start WICD looks for the first time.
	awaits func() string
	late   time.Duration

	// windows is what its Windows does by itself.
	windows storyWindows

	// isolated is why it does not reach the API server; empty where it does. It always reaches the one at reachable.
	isolated, reachable string

	// hangs has commands other than facts and reach end with their context only.
	hangs bool
	// loses breaks the connection at the n-th command from now on; zero for never.
	loses int
}

func newStoryHost(s *story, n int) *storyHost {
	seed := make([]byte, ed25519.SeedSize)
	seed[0], seed[1] = byte(n), byte(n>>8)
	key, err := ssh.NewPublicKey(ed25519.NewKeyFromSeed(seed).Public())
	if err != nil {
		s.t.Fatal(err)
	}
	return &storyHost{
		story: s, name: fmt.Sprintf("win-%d", n), address: fmt.Sprintf("10.0.%d.%d", n/250, n%250+1), key: key, bootID: 1,
		windows: newStoryWindows(1000*s.quirks + uint64(n)),
	}
}

func (h *storyHost) reach(r agent.ReachRequest) agent.ReachResult {
	if h.reachable != "" && strings.HasPrefix(r.Server, "https://"+h.reachable+":") {
		return agent.ReachResult{}
	}
	return agent.ReachResult{Failure: h.isolated}
}

// alive says whether the host runs.
func (h *storyHost) alive() bool { return !h.off && !time.Now().Before(h.backAt) }

// serves says whether its kubelet works.
func (h *storyHost) serves() bool { return h.alive() && h.version != "" && h.deaf == 0 }

// dial answers as remote.Dial does.
func (s *story) dial(_ context.Context, t remote.Target, _ remote.Options) (instance.SSHHost, error) {
	for _, h := range s.hosts {
		if h.address == t.Address && h.alive() {
			if t.HostKey != nil && !bytes.Equal(t.HostKey.Marshal(), h.key.Marshal()) {
				return nil, &remote.Error{Kind: remote.HostKeyChanged, Host: t.Address, HostKey: h.key, Err: errors.New("another host")}
			}
			if t.HostKey == nil && t.KnownOnly {
				return nil, &remote.Error{Kind: remote.HostKeyUnknown, Host: t.Address, HostKey: h.key, Err: fmt.Errorf("it shows %s", ssh.FingerprintSHA256(h.key))}
			}
			if line := sshkey.AuthorizedLine(t.Key); !slices.Contains(h.keys, line) || line == h.ignores {
				return nil, &remote.Error{Kind: remote.Authentication, Host: t.Address, Err: errors.New("no key fits")}
			}
			return storyConnection{h}, nil
		}
	}
	return nil, &remote.Error{Kind: remote.Timeout, Host: t.Address, Err: errors.New("no answer")}
}

// storyConnection is a connection to a host.
type storyConnection struct{ *storyHost }

func (c storyConnection) HostKey() ssh.PublicKey { return c.key }
func (c storyConnection) Address() netip.Addr    { return netip.MustParseAddr(c.address) }
func (c storyConnection) Usage() remote.Usage    { return remote.Usage{} }
func (c storyConnection) Close() error           { return nil }
func (c storyConnection) Server() (version string, at netip.Addr) {
	return "SSH-2.0-OpenSSH_for_Windows_9.5", c.Address()
}

func (c storyConnection) Files(context.Context, func(agent.Files) error) error {
	return errors.New("a story's hosts have no SFTP")
}

func (c storyConnection) Put(context.Context, string, io.Reader, int64) error {
	return errors.New("a story's hosts have WICD")
}

// Run does what the command says, and loses the answer where the story wants it so.
func (c storyConnection) Run(ctx context.Context, command string, stdin io.Reader, stdout io.Writer) error {
	if c.hangs && !strings.HasSuffix(command, agent.CommandFacts) && !strings.HasSuffix(command, agent.CommandReach) {
		<-ctx.Done()
		return &remote.Error{Kind: remote.Lost, Host: c.address, Err: ctx.Err()}
	}
	lost := false
	if c.loses > 0 {
		c.loses--
		lost = c.loses == 0
	}
	if lost && c.story.random.IntN(2) == 0 {
		return &remote.Error{Kind: remote.Lost, Host: c.address, Err: errors.New("broken before the command")}
	}
	host := unkind{c.storyHost, c.storyHost}
	does := commanded(host)
	if lost {
		stdout, does = io.Discard, host.afterLoss()
	}
	err := doCommand(does, command, stdin, stdout)
	if lost {
		return &remote.Error{Kind: remote.Lost, Host: c.address, Err: errors.New("broken after the command")}
	}
	return err
}

// commanded is a host that does what the operator's commands say.
type commanded interface {
	restart()
	facts() agent.Facts
	reach(agent.ReachRequest) agent.ReachResult
	receive(agent.ReceiveRequest)
	join(agent.JoinRequest) (agent.JoinResult, error)
	leave(agent.LeaveRequest) (agent.LeaveResult, error)
}

// doCommand has a host do what a command says.
func doCommand(h commanded, command string, stdin io.Reader, stdout io.Writer) error {
	s := agent.NewSession(stdin, stdout)
	_, verb, _ := strings.Cut(command, " ")
	switch verb {
	case agent.CommandFacts:
		s.End(h.facts(), nil)
	case agent.CommandReach:
		var request agent.ReachRequest
		if err := s.Request(&request); err != nil {
			return err
		}
		s.End(h.reach(request), nil)
	case agent.CommandRestart:
		var request agent.RestartRequest
		if err := s.Request(&request); err != nil {
			return err
		}
		s.End(restarted(h, request), nil)
	case agent.CommandReceive:
		var request agent.ReceiveRequest
		_ = s.Request(&request)
		_ = s.Missing(nil)
		h.receive(request)
		s.End(agent.ReceiveResult{}, nil)
	case agent.CommandJoin:
		var request agent.JoinRequest
		if err := s.Request(&request); err != nil {
			return err
		}
		s.End(h.join(request))
	case agent.CommandLeave:
		var request agent.LeaveRequest
		if err := s.Request(&request); err != nil {
			return err
		}
		s.End(h.leave(request))
	default:
		return fmt.Errorf("a story knows no command %q", command)
	}
	return nil
}

// restarted restarts a host that has not restarted since.
func restarted(h commanded, r agent.RestartRequest) agent.RestartResult {
	boot := h.facts().Host.BootID
	if boot != r.BootID {
		return agent.RestartResult{BootID: boot}
	}
	h.restart()
	return agent.RestartResult{BootID: boot, Restarting: true}
}

func (h *storyHost) facts() agent.Facts {
	f := agent.Facts{Program: storyWICD, Host: agent.HostFacts{
		Hostname: h.name, Build: 20348, UBR: 2402, Product: "Windows Server 2022", Installation: "Server Core", Architecture: "amd64",
		BootID: h.boot(), Clock: time.Now(), FreeBytes: 1 << 40, MemoryBytes: 1 << 34,
		Interfaces: []agent.Interface{{Name: "Ethernet", Addresses: []netip.Prefix{netip.MustParsePrefix(cmp.Or(h.node, h.address) + "/24")}, DefaultRoute: true}},
	}}
	if h.says != nil {
		h.says(&f.Host)
	}
	if h.cluster != "" {
		f.Joined = &agent.Joined{Cluster: h.cluster, Node: h.name, Version: h.version}
	}
	if h.others || h.unfinished {
		f.Services = []agent.ServiceFacts{{Name: "kubelet", Ours: true}}
	}
	return f
}

func (h *storyHost) receive(r agent.ReceiveRequest) { h.staged, h.offered = true, r.Content }

func (h *storyHost) join(r agent.JoinRequest) (agent.JoinResult, error) {
	h.token = r.Bootstrap.Token
	if h.says != nil { // whoever lies takes the token, and stays what it is
		return agent.JoinResult{}, &agent.Error{Code: agent.CodeServiceFailed, Message: "something went wrong"}
	}
	if h.hesitates != nil {
		if err := h.hesitates(r); err != nil {
			return agent.JoinResult{}, err
		}
	}
	if h.restarts {
		h.joins++
		before := h.boot()
		h.bootID++
		return agent.JoinResult{Rebooting: "updates are installed", BootID: before}, nil
	}
	h.story.mustBeDrained(h, h.others, "joined over another operator's node")
	if h.losesPower {
		h.losesPower, h.unfinished = false, true
		h.register()
		return agent.JoinResult{}, errors.New("the connection was lost")
	}
	h.unfinished = false
	if h.version != r.Desired.Version {
		h.story.say("%s joins with %s", h.name, r.Desired.Version)
	}
	h.cluster, h.version, h.others = r.Cluster, r.Desired.Version, false
	if h.signingKey != "" && h.signingKey != r.Desired.SigningKey {
		h.story.say("%s is told another signing key", h.name)
	}
	h.signingKey = r.Desired.SigningKey
	h.joinedAt, h.joins = time.Now(), h.joins+1
	if h.story.lags {
		slot, _ := h.story.slots.Take(99) // another host waits for the place
		h.story.others = append(h.story.others, slot)
	}
	if h.deaf > 0 {
		h.deaf--
		h.story.say("%s is joined again", h.name)
	}
	return agent.JoinResult{BootID: h.boot()}, nil
}

func (h *storyHost) leave(r agent.LeaveRequest) (agent.LeaveResult, error) {
	if h.cluster != "" && h.cluster != r.Cluster {
		return agent.LeaveResult{}, &agent.Error{Code: agent.CodeOtherCluster, Message: "another cluster's"}
	}
	h.story.mustBeDrained(h, h.version != "", "left")
	if h.version != "" {
		h.story.say("%s leaves", h.name)
	}
	h.cluster, h.version, h.staged = "", "", false
	h.left++
	return agent.LeaveResult{}, nil
}

// restart restarts the host after a moment: until then it answers.
func (h *storyHost) restart() {
	h.story.mustBeDrained(h, true, "restarted")
	h.story.say("%s restarts", h.name)
	h.bootID++
	h.backAt = time.Now().Add(restartTakes)
}

// rotate puts the n-th SSH key into the Secret.
func (s *story) rotate(n byte) {
	var secret corev1.Secret
	s.must(s.client.Get(s.ctx, types.NamespacedName{Namespace: "ns", Name: api.PrivateKeySecret}, &secret))
	secret.Data = map[string][]byte{api.PrivateKeyKey: controllertest.SSHKey(s.t, n)}
	s.must(s.client.Update(s.ctx, &secret))
	for _, i := range s.allInstances() {
		s.seen[client.ObjectKeyFromObject(&i)] = "" // a changed Secret brings them all
	}
	s.instances.EnqueueAll(s.ctx, &secret)
}

// line is what authorized_keys has for the n-th SSH key.
func (s *story) line(n byte) string {
	key, err := ssh.ParsePrivateKey(controllertest.SSHKey(s.t, n))
	s.must(err)
	return sshkey.AuthorizedLine(key)
}
