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
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/instance"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/sshkey"
	"github.com/windows-machine-config/wmco/internal/operator/remote"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// storyHost is a Windows host in a story: its answers to the operator, and its own behavior over time.
type storyHost struct {
	story   *story
	name    string
	address string
	key     ssh.PublicKey

	state         string // at its last step
	off           bool   // no power
	kubeletSilent bool   // by the API server; its pods run, and SSH works
	serviceFault  string // why a service other than the kubelet does not work
	pending       string // why Windows needs a restart; empty if it does not
	bootID        int
	backAt        time.Time // when its restart ends
	cluster       string    // that it has joined
	version       string    // that runs on it
	staged        bool
	offered       []wicdapi.Content // of the last transfer
	joinedAt      time.Time
	joins         int      // number of joins
	left          int      // number of leaves
	failingJoins  int      // number of joins until its kubelet works
	keys          []string // accepted keys, as lines of authorized_keys
	ignores       string   // the key of them that its OpenSSH rejects
	// signingKey is the key that its last join provided.
	signingKey string
	// ofCloud means that a cloud initializes its node.
	ofCloud bool
	// others means that the original operator configured the host.
	others bool
	// losesPower makes the next join end after the services run and before the host records its join; unfinished means that this happened.
	losesPower, unfinished bool

	// targetVersion is the version that WICD is switching to, and upgradeAt when the switch ends.
	targetVersion string
	upgradeAt     time.Time
	// node is the address of its node, if different.
	node string
	// changeFacts changes the facts that the host reports; nil for true ones.
	changeFacts func(*wicdapi.HostFacts)
	// restarts makes each join end with a restart of Windows, after which it must be repeated.
	restarts bool
	// temporaryError returns WICD's temporary error for a join.
	temporaryError func(wicdapi.JoinRequest) error
	// busyUntil is when Windows has completed what forbids a restart.
	busyUntil time.Time
	// token is the last bootstrap token that the host received.
	token string
	// approvalTakes is how long after a join WICD's certificate request is decided. Its token must be known until then.
	approvalTakes time.Duration
	decided       string // the token of the last request that was decided
	isApproved    bool
	// refuses is a version that does not work on this host.
	refuses string
	refused string
	// lastOrder is the last version order that WICD accepted. acceptsAnyOrder means that WICD is an older one, which needs no order.
	lastOrder struct {
		uid    types.UID
		serial int64
	}
	acceptsAnyOrder bool
	// registrations counts the Nodes that its kubelet has created.
	registrations int
	// pendingRestart returns why a restart is pending, as WICD detects it; nil if the story sets pending itself. late is the delay of WICD's first check
	// after a start.
	pendingRestart func() string
	late           time.Duration

	// updates are those of its Windows.
	updates storyUpdates
	// windows simulates what Windows does on its own.
	windows storyWindows

	// isolated is the error for reaching the API server, or "". The address in reachable always works.
	isolated, reachable string

	// hangs makes commands other than facts and reach block until their context ends.
	hangs bool
	// loses breaks the connection at the n-th command from now on; zero means never.
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

func (h *storyHost) reach(r wicdapi.ReachRequest) wicdapi.ReachResult {
	if h.reachable != "" && strings.HasPrefix(r.Server, "https://"+h.reachable+":") {
		return wicdapi.ReachResult{}
	}
	return wicdapi.ReachResult{Failure: h.isolated}
}

// alive reports whether the host runs.
func (h *storyHost) alive() bool { return !h.off && !time.Now().Before(h.backAt) }

// serves reports whether its kubelet works.
func (h *storyHost) serves() bool { return h.alive() && h.version != "" && h.failingJoins == 0 }

// dial behaves like remote.Dial.
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

func (c storyConnection) Files(context.Context, func(wicdapi.Files) error) error {
	return errors.New("a story's hosts have no SFTP")
}

func (c storyConnection) Put(context.Context, string, io.Reader, int64) error {
	return errors.New("a story's hosts have WICD")
}

// Run executes the command, and loses the answer if the story requires it.
func (c storyConnection) Run(ctx context.Context, command string, stdin io.Reader, stdout io.Writer) error {
	if c.hangs && !strings.HasSuffix(command, wicdapi.CommandFacts) && !strings.HasSuffix(command, wicdapi.CommandReach) {
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
	host := quirkyHost{c.storyHost, c.storyHost}
	does := commandHandler(host)
	if lost {
		stdout, does = io.Discard, host.afterLoss()
	}
	err := handleCommand(does, command, stdin, stdout)
	if lost {
		return &remote.Error{Kind: remote.Lost, Host: c.address, Err: errors.New("broken after the command")}
	}
	return err
}

// commandHandler is a host that executes the operator's commands.
type commandHandler interface {
	restart() error
	facts() wicdapi.Facts
	reach(wicdapi.ReachRequest) wicdapi.ReachResult
	receive(wicdapi.ReceiveRequest)
	join(wicdapi.JoinRequest) (wicdapi.JoinResult, error)
	leave(wicdapi.LeaveRequest) (wicdapi.LeaveResult, error)
	installUpdates(wicdapi.InstallUpdatesRequest) (wicdapi.InstallUpdatesResult, error)
}

// handleCommand executes a command on a host.
func handleCommand(h commandHandler, command string, stdin io.Reader, stdout io.Writer) error {
	s := wicdapi.NewSession(stdin, stdout)
	_, verb, _ := strings.Cut(command, " ")
	switch verb {
	case wicdapi.CommandFacts:
		s.End(h.facts(), nil)
	case wicdapi.CommandReach:
		return answer(s, func(r wicdapi.ReachRequest) (wicdapi.ReachResult, error) { return h.reach(r), nil })
	case wicdapi.CommandRestart:
		return answer(s, func(r wicdapi.RestartRequest) (wicdapi.RestartResult, error) { return restarted(h, r) })
	case wicdapi.CommandReceive:
		var request wicdapi.ReceiveRequest
		_ = s.Request(&request)
		_ = s.Missing(nil)
		h.receive(request)
		s.End(wicdapi.ReceiveResult{}, nil)
	case wicdapi.CommandJoin:
		return answer(s, h.join)
	case wicdapi.CommandLeave:
		return answer(s, h.leave)
	case wicdapi.CommandInstallUpdates:
		return answer(s, h.installUpdates)
	default:
		return fmt.Errorf("stories do not implement command %q", command)
	}
	return nil
}

// answer reads a request and sends the answer.
func answer[Request, Result any](s *wicdapi.Session, do func(Request) (Result, error)) error {
	var request Request
	if err := s.Request(&request); err != nil {
		return err
	}
	s.End(do(request))
	return nil
}

// restarted restarts the host unless it has already restarted since the boot in the request.
func restarted(h commandHandler, r wicdapi.RestartRequest) (wicdapi.RestartResult, error) {
	boot := h.facts().Host.BootID
	if boot != r.BootID {
		return wicdapi.RestartResult{BootID: boot}, nil
	}
	err := h.restart()
	return wicdapi.RestartResult{BootID: boot, Restarting: err == nil}, err
}

func (h *storyHost) facts() wicdapi.Facts {
	f := wicdapi.Facts{Program: storyWICD, Host: wicdapi.HostFacts{
		Hostname: h.name, Build: 20348, UBR: 2402, Product: "Windows Server 2022", Installation: "Server Core", Architecture: "amd64",
		BootID: h.boot(), Clock: time.Now(), FreeBytes: 1 << 40, MemoryBytes: 1 << 34,
		Interfaces: []wicdapi.Interface{{Name: "Ethernet", Addresses: []netip.Prefix{netip.MustParsePrefix(cmp.Or(h.node, h.address) + "/24")}, DefaultRoute: true}},
	}}
	if h.changeFacts != nil {
		h.changeFacts(&f.Host)
	}
	if h.cluster != "" {
		f.Joined = &wicdapi.Joined{Cluster: h.cluster, Node: h.name, Version: h.version}
	}
	if h.others || h.unfinished {
		f.Services = []wicdapi.ServiceFacts{{Name: "kubelet", Ours: true}}
	}
	return f
}

func (h *storyHost) receive(r wicdapi.ReceiveRequest) { h.staged, h.offered = true, r.Content }

func (h *storyHost) join(r wicdapi.JoinRequest) (wicdapi.JoinResult, error) {
	h.token = r.Bootstrap.Token
	if h.changeFacts != nil { // a liar keeps the token and does not join
		return wicdapi.JoinResult{}, &wicdapi.Error{Code: wicdapi.CodeServiceFailed, Message: "something went wrong"}
	}
	if h.temporaryError != nil {
		if err := h.temporaryError(r); err != nil {
			return wicdapi.JoinResult{}, err
		}
	}
	if h.restarts {
		h.joins++
		before := h.boot()
		h.bootID++
		return wicdapi.JoinResult{Rebooting: "updates are installed", BootID: before}, nil
	}
	h.story.mustBeDrained(h, h.others, "joined over another operator's node")
	if h.losesPower {
		h.losesPower, h.unfinished = false, true
		h.register()
		return wicdapi.JoinResult{}, errors.New("the connection was lost")
	}
	h.unfinished = false
	if h.version != r.Desired.Version {
		h.story.record("%s joins with %s", h.name, r.Desired.Version)
	}
	h.cluster, h.version, h.others = r.Cluster, r.Desired.Version, false
	if h.signingKey != "" && h.signingKey != r.Desired.SigningKey {
		h.story.record("%s gets another signing key", h.name)
	}
	h.signingKey = r.Desired.SigningKey
	h.joinedAt, h.joins = time.Now(), h.joins+1
	if h.story.lags {
		slot, _ := h.story.slots.Take(99) // another host takes the slot
		h.story.others = append(h.story.others, slot)
	}
	if h.failingJoins > 0 {
		h.failingJoins--
		h.story.record("%s is joined again", h.name)
	}
	return wicdapi.JoinResult{BootID: h.boot()}, nil
}

func (h *storyHost) leave(r wicdapi.LeaveRequest) (wicdapi.LeaveResult, error) {
	if h.cluster != "" && h.cluster != r.Cluster {
		return wicdapi.LeaveResult{}, &wicdapi.Error{Code: wicdapi.CodeOtherCluster, Message: "another cluster's"}
	}
	h.story.mustBeDrained(h, h.version != "", "left")
	if h.version != "" {
		h.story.record("%s leaves", h.name)
	}
	h.cluster, h.version, h.staged = "", "", false
	h.left++
	return wicdapi.LeaveResult{}, nil
}

// restart restarts the host, unless Windows is busy.
func (h *storyHost) restart() error {
	h.story.mustBeDrained(h, true, "restarted")
	if time.Now().Before(h.busyUntil) {
		return &wicdapi.Error{Code: wicdapi.CodeWaitingForSetup, Message: "Windows is completing its setup"}
	}
	h.story.record("%s restarts", h.name)
	h.bootID++
	h.backAt = time.Now().Add(restartTakes)
	return nil
}

// rotate stores the n-th SSH key in the Secret.
func (s *story) rotate(n byte) {
	var secret corev1.Secret
	s.must(s.client.Get(s.ctx, types.NamespacedName{Namespace: "ns", Name: api.PrivateKeySecret}, &secret))
	secret.Data = map[string][]byte{api.PrivateKeyKey: controllertest.SSHKey(s.t, n)}
	s.must(s.client.Update(s.ctx, &secret))
	for _, i := range s.allInstances() {
		s.seen[client.ObjectKeyFromObject(&i)] = "" // a changed Secret requeues all instances
	}
	s.instances.EnqueueAll(s.ctx, &secret)
}

// line returns the line of authorized_keys for the n-th SSH key.
func (s *story) line(n byte) string {
	key, err := ssh.ParsePrivateKey(controllertest.SSHKey(s.t, n))
	s.must(err)
	return sshkey.AuthorizedLine(key)
}
