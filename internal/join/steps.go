package join

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/platform"
	"github.com/windows-machine-config/wmco/payload"
)

func (j *Job) connect(ctx context.Context) error {
	host, err := j.Connect(ctx)
	j.host = host
	return err
}

func (j *Job) inspect(ctx context.Context) error {
	wicd, err := j.wicd()
	if err != nil {
		return err
	}
	err = j.call(ctx, wicd.program(j.factsCommand()), nil, &j.facts)
	if noAnswer := (*agent.NoAnswerError)(nil); errors.As(err, &noAnswer) || err == nil && j.facts.Program != wicd.sha256 {
		err = j.deliver(ctx, wicd)
	}
	if err != nil {
		return err
	}
	if j.facts.Program != wicd.sha256 {
		return fmt.Errorf("the program that answers has hash %.12s, the operator's WICD has %.12s; "+
			"something on the host changes programs", j.facts.Program, wicd.sha256)
	}
	if j.Hostname != "" {
		j.facts.Host.Hostname = j.Hostname // it will be, before it is a node
	}
	j.facts.Platform = j.podNetwork.Platform
	return nil
}

// factsCommand asks for the name that the host has on platforms where its node needs that.
func (j *Job) factsCommand() string {
	if p := j.podNetwork.Platform; platform.Of(p).NamesNodes {
		return agent.CommandFacts + " --" + agent.FlagPlatform + "=" + p
	}
	return agent.CommandFacts
}

// deliver sends the carrier of WICD, which unpacks WICD and passes the command on. A carrier that was there before and does not do so is
// damaged: it is sent anew, once.
func (j *Job) deliver(ctx context.Context, w wicd) error {
	j.say(StepInspect, "sending the daemon")
	sent, err := j.sendCarrier(ctx, w)
	if err != nil {
		return err
	}
	err = j.call(ctx, w.setup(j.factsCommand()), nil, &j.facts)
	if sent || !isNoCarrier(err) {
		return err
	}
	j.say(StepInspect, "sending the daemon anew: what was there is damaged")
	// What has the size of the content is not sent again. An empty file has not, also when what comes now is cut.
	if err := j.host.Put(ctx, w.setupName(), strings.NewReader(""), 0); err != nil {
		return fmt.Errorf("emptying the damaged %s: %w", w.setupName(), err)
	}
	if _, err := j.sendCarrier(ctx, w); err != nil {
		return err
	}
	return j.call(ctx, w.setup(j.factsCommand()), nil, &j.facts)
}

// sendCarrier sends the carrier unless a file of its name and size is there; then sent is false.
func (j *Job) sendCarrier(ctx context.Context, w wicd) (sent bool, err error) {
	carrier, err := j.Payload.Setup()
	if err != nil {
		return false, err
	}
	defer carrier.Close()
	content := &noticed{Reader: carrier}
	if err := j.host.Put(ctx, w.setupName(), content, j.Payload.Manifest.Setup.Size); err != nil {
		return false, fmt.Errorf("sending the daemon: %w", err)
	}
	return content.read, nil
}

// noticed is a reader that knows whether anybody read it.
type noticed struct {
	io.Reader
	read bool
}

// Read implements io.Reader.
func (n *noticed) Read(p []byte) (int, error) {
	n.read = true
	return n.Reader.Read(p)
}

// isNoCarrier tells whether a program is not the carrier: Windows does not run it, or it cannot unpack what it carries.
func isNoCarrier(err error) bool {
	noAnswer, failed := (*agent.NoAnswerError)(nil), agent.Failed(err)
	return errors.As(err, &noAnswer) || failed != nil && failed.Code == agent.CodeSetupFailed
}

func (j *Job) check(ctx context.Context) error {
	if err := unnamed(j.facts); err != nil {
		return err
	}
	if ip := NodeIP(j.facts, j.Interface); ip != "" { // Check refuses a host without
		if err := j.ProveAddress(ctx, ip); err != nil {
			return err
		}
	}
	taken, err := j.NameTakenBy(ctx, NodeName(j.facts), j.facts)
	if err != nil {
		return err
	}
	if u := Check(j.facts, Surroundings{Now: j.Now(), NameTakenBy: taken, Interface: j.Interface, VXLANPort: j.podNetwork.VXLANPort}); u != nil {
		return u
	}
	if err := j.Learned(ctx, j.facts); err != nil {
		return err
	}
	if j.Occupied(j.facts) {
		return ErrOccupied
	}
	return nil
}

func (j *Job) transfer(ctx context.Context) error {
	wicd, err := j.wicd()
	if err != nil {
		return err
	}
	if j.release, err = j.Slot(); err != nil {
		return err
	}
	files := map[string]payload.File{}
	var content []agent.Content
	for _, f := range j.Content.Files {
		if _, twice := files[f.SHA256]; twice {
			continue
		}
		files[f.SHA256] = f
		content = append(content, agent.Content{SHA256: f.SHA256, Size: f.Size, CompressedSize: f.Compressed.Size})
	}
	open := func(sha256 string, offset int64) (io.ReadCloser, error) {
		blob, err := openBlob(j.Payload, files, sha256, offset)
		if err != nil || j.Pace == nil {
			return blob, err
		}
		return &paced{ReadCloser: blob, ctx: ctx, pace: j.Pace}, nil
	}
	result, err := agent.Send(ctx, j.host, wicd.program(agent.CommandReceive), content, open, j.onStep(StepTransfer))
	if len(result.Altered) > 0 {
		j.Altered(paths(files, result.Altered))
	}
	return err
}

// paced is content that is sent no faster than it may be.
type paced struct {
	io.ReadCloser
	ctx  context.Context // of the transfer
	pace func(ctx context.Context, bytes int) error
}

// pacedBytes is how much is read at a time.
const pacedBytes = 64 << 10

// Read implements io.Reader.
func (p *paced) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b[:min(len(b), pacedBytes)])
	if n > 0 {
		if late := p.pace(p.ctx, n); late != nil {
			return 0, late
		}
	}
	return n, err
}

func paths(files map[string]payload.File, hashes []string) []string {
	var list []string
	for _, sha256 := range hashes {
		list = append(list, files[sha256].Path)
	}
	return list
}

func openBlob(p *payload.Payload, files map[string]payload.File, sha256 string, offset int64) (io.ReadCloser, error) {
	f, known := files[sha256]
	if !known {
		return nil, errors.New("the host asks for content that was not offered")
	}
	blob, err := p.Blob(f)
	if err != nil {
		return nil, err
	}
	if _, err := blob.Seek(offset, io.SeekStart); err != nil {
		return nil, errors.Join(err, blob.Close())
	}
	return blob, nil
}

func (j *Job) configure(ctx context.Context) error {
	wicd, err := j.wicd()
	if err != nil {
		return err
	}
	want, err := j.Desired(ctx)
	if err != nil {
		return err
	}
	if err := checkNotServer(j.facts, want.Cluster.Server); err != nil {
		return err
	}
	token, err := j.Token(ctx)
	if err != nil {
		return fmt.Errorf("making a bootstrap token: %w", err)
	}
	unregistered := j.Register()
	request := agent.JoinRequest{
		Cluster:   want.Cluster.ID,
		Namespace: j.Namespace,
		Local:     j.local(),
		Desired:   want.Node,
		Secrets:   want.Secrets,
		Serial:    want.Serial,
		Bootstrap: agent.Bootstrap{Server: want.Cluster.Server, CA: want.Cluster.CA, Token: token},
		Register:  unregistered,
		Hostname:  j.Hostname,
		MayReboot: unregistered, // without a Node, nothing runs on the host that a restart could hurt
	}
	var result agent.JoinResult
	if err := j.callWith(ctx, wicd.program(agent.CommandJoin), request, &result, StepConfigure); err != nil {
		return err
	}
	if result.Rebooting != "" {
		return &Rebooting{Reason: result.Rebooting, BootID: result.BootID}
	}
	return nil
}

// local is what only this host has.
func (j *Job) local() desired.Local {
	return desired.Local{
		Node: NodeName(j.facts), NodeIP: NodeIP(j.facts, j.Interface), Adapter: Adapter(j.facts, j.Interface), Taints: j.Taints,
	}
}

// wicd names the program on the host. It lies in the home folder of the user we log in as, which Windows lets
// only that user and administrators write; C:\k could have been made by anybody before the first join.
type wicd struct{ sha256 string }

func (j *Job) wicd() (wicd, error) {
	for _, f := range j.Content.Files {
		if f.Path == payload.WICD {
			return wicd{f.SHA256}, nil
		}
	}
	return wicd{}, fmt.Errorf("the payload has no %s; run make payload", payload.WICD)
}

// program and setup are command lines. Doubled backslashes mean the same to cmd.exe, PowerShell and bash,
// whichever is the host's default shell.
func (w wicd) program(command string) string {
	return fmt.Sprintf(`.\\wicd-%.16s.exe %s`, w.sha256, command)
}
func (w wicd) setup(command string) string { return `.\\` + w.setupName() + ` ` + command }
func (w wicd) setupName() string           { return fmt.Sprintf("wicd-%.16s-setup.exe", w.sha256) }

func (j *Job) call(ctx context.Context, command string, request, result any) error {
	return j.callWith(ctx, command, request, result, StepInspect)
}

func (j *Job) callWith(ctx context.Context, command string, request, result any, step string) error {
	return agent.Call(ctx, j.host, command, request, result, j.onStep(step))
}

func (j *Job) say(step, message string) {
	j.Progress(Progress{Step: step, State: v1alpha1.StepRunning, Message: message})
}

// onStep passes WICD's progress on, at most once a second: each becomes a write to the API server.
func (j *Job) onStep(step string) func(agent.Step) {
	var last time.Time
	return func(s agent.Step) {
		if now := j.Now(); now.Sub(last) >= time.Second {
			last = now
			j.say(step, describe(s))
		}
	}
}

func describe(s agent.Step) string {
	if s.Total == 0 {
		return s.Name
	}
	return fmt.Sprintf("%s: %.1f of %.1f MB", s.Name, float64(s.Bytes)/1e6, float64(s.Total)/1e6)
}
