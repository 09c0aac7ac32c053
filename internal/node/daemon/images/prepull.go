package images

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/cri"
	"github.com/windows-machine-config/wmco/internal/node/daemon/nodestatus"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

const (
	// spread is the time over which nodes in service begin to pull after a change, so that they do not all ask the registry at once.
	spread = 10 * time.Minute
	// presenceInterval is how often the presence of the images is checked.
	presenceInterval = time.Hour
	// Pulls that failed are retried after firstRetry, then with back-off.
	firstRetry   = time.Minute
	longestRetry = 30 * time.Minute
	// minFreePercent is the part of the disk that must be free before a pull. By default, the kubelet removes unused images when less than 15 % are.
	minFreePercent = 25
	// repullAfter is how long after its removal an image is pulled again: the kubelet removes unused images when the disk is full.
	repullAfter = 24 * time.Hour
)

// Prepull pulls the images that WindowsConfig lists before pods need them.
type Prepull struct {
	puller
	wake    state.Signal
	sandbox *Sandbox

	// reported is closed once the Node is known; isTainted is then whether it takes no pods until the images are pulled.
	reported  chan struct{}
	isTainted bool

	mu sync.Mutex
	// last is what the Node reports; nil until something is known.
	last *corev1.NodeCondition
	// since is when the last problem began.
	since time.Time

	// had has the images that were present in this session, and removed when they were first missed.
	had     map[string]bool
	removed map[string]time.Time
}

// NewPrepull returns a Prepull that begins when the sandbox image is present.
func NewPrepull(s state.Session, wake state.Signal, sandbox *Sandbox) *Prepull {
	return &Prepull{
		puller: puller{s}, wake: wake, sandbox: sandbox, reported: make(chan struct{}), had: map[string]bool{}, removed: map[string]time.Time{},
	}
}

// Run pulls the images and checks their presence until ctx is done.
func (p *Prepull) Run(ctx context.Context) {
	select {
	case <-p.reported:
	case <-ctx.Done():
		return
	}
	if len(p.Wanted.Images) > 0 && !p.isTainted {
		_ = backoff.Sleep(ctx, rand.N(spread))
	}
	retry, isFirst := backoff.Between(firstRetry, longestRetry), true
	for ctx.Err() == nil {
		lacks, err := p.pullAll(ctx, isFirst)
		wait := presenceInterval
		switch {
		case ctx.Err() != nil:
			return
		case err != nil: // the runtime does not answer yet, which the supervisor reports
			wait = startPause
		case len(lacks) > 0:
			p.set(corev1.ConditionTrue, api.ReasonImagesNotPulled, strings.Join(lacks, "; "))
			isFirst, wait = false, retry.Next()
		default:
			p.set(corev1.ConditionFalse, api.ReasonImagesPulled, fmt.Sprintf("the node has all %d images that are listed for its version of Windows", len(p.had)))
			retry, isFirst = backoff.Between(firstRetry, longestRetry), false
		}
		_ = backoff.Sleep(ctx, wait)
	}
}

// pullAll pulls the images that the host lacks, one after the other. lacks describes those that it still lacks.
func (p *Prepull) pullAll(ctx context.Context, isFirst bool) (lacks []string, err error) {
	if len(p.Wanted.Images) == 0 {
		return nil, nil
	}
	if !p.sandbox.IsPresent() { // it comes first
		return nil, ErrNoRuntime
	}
	number, _, err := p.Host.Inventory.Version(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, i := range p.Wanted.Images {
		if i.IsFor(windowsbuild.Build(number)) {
			names = append(names, i.Name)
		}
	}
	for n, name := range names {
		_, found, err := p.status(ctx, name)
		if err != nil {
			return nil, ErrNoRuntime
		}
		if found {
			p.had[name] = true
			delete(p.removed, name)
			continue
		}
		if isFirst {
			p.set(corev1.ConditionUnknown, api.ReasonImagesPulling,
				fmt.Sprintf("pulling image %s (%d of %d), started at %s", name, n+1, len(names), time.Now().UTC().Format(time.RFC3339)))
		}
		lack, err := p.pullMissing(ctx, name)
		if err != nil {
			return nil, err
		}
		if lack != "" {
			lacks = append(lacks, "image "+name+" "+lack)
		}
	}
	return lacks, nil
}

// pullMissing pulls an image that the host lacks. lack is why it still lacks it.
func (p *Prepull) pullMissing(ctx context.Context, name string) (lack string, err error) {
	if p.had[name] && p.removed[name].IsZero() {
		p.removed[name] = time.Now()
	}
	if at := p.removed[name]; !at.IsZero() && time.Since(at) < repullAfter {
		return fmt.Sprintf("was removed from the host, as the kubelet does with unused images when the disk is full; it is pulled again after %s",
			at.Add(repullAfter).UTC().Format(time.RFC3339)), nil
	}
	facts, err := p.Host.System.Facts(ctx)
	if facts.DiskBytes > 0 && facts.FreeBytes*100/facts.DiskBytes < minFreePercent {
		return fmt.Sprintf("was not pulled: %d %% of drive C: is free, and %d %% is needed", facts.FreeBytes*100/facts.DiskBytes, minFreePercent), nil
	}
	if err != nil {
		p.Log.Warn("Reading the free space of the disk failed", "error", err.Error())
	}
	_, err = p.pull(ctx, name)
	var refused *cri.Error
	switch {
	case err == nil:
		p.had[name] = true
		delete(p.removed, name)
		return "", nil
	case !errors.As(err, &refused) || isUnavailable(refused):
		return "", ErrNoRuntime
	}
	p.Log.Warn("Pulling an image failed", "image", name, "error", withoutSecrets(refused.Error()))
	c := causeOf(name, refused)
	return fmt.Sprintf("could not be pulled: %s; %s", c.what, c.advice), nil
}

func (p *Prepull) set(status corev1.ConditionStatus, reason, message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := &corev1.NodeCondition{Type: api.ConditionImagesMissing, Status: status, Reason: reason, Message: truncate.Text(message, truncate.Note)}
	if p.last != nil && *p.last == *next {
		return
	}
	if p.last == nil || p.last.Status != status {
		p.since = time.Now()
	}
	p.last = next
	p.wake.Send()
}

// ReportTo reports the images that the host lacks as a condition, and as an event when one could not be pulled.
func (p *Prepull) ReportTo(ctx context.Context, w *nodestatus.Writer, node *corev1.Node) error {
	select {
	case <-p.reported:
	default:
		p.isTainted = slices.ContainsFunc(node.Spec.Taints, nodestate.IsForImages)
		close(p.reported)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == nil || len(p.Wanted.Images) == 0 && nodestate.Condition(node, api.ConditionImagesMissing) == nil {
		return nil
	}
	if p.last.Status != corev1.ConditionTrue {
		return w.SetCondition(ctx, node, *p.last)
	}
	return w.SetCondition(ctx, node, *p.last, nodestatus.Problem{Service: "images", Reason: p.last.Reason, Message: p.last.Message, Since: p.since})
}
