package acceptance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// ErrRestarting is returned by Join when Windows restarts. The run continues afterwards, in its service.
var ErrRestarting = errors.New("Windows restarts, and the run continues afterwards")

// RestartAllowed allows a join to restart Windows.
const RestartAllowed = "restart"

const (
	resumeFile = Root + `\resume.json`
	maxResume  = 64 << 20
	// restartDelay is the delay of a restart, featureTimeout how long Windows may take to complete a feature after it, and pollPause the time
	// between two checks.
	restartDelay   = 5 * time.Second
	featureTimeout = 12 * time.Minute
	pollPause      = 2 * time.Second
)

// The occasions on which a join restarts Windows.
const (
	forContainers = "containers"
	asNode        = "node"
)

// resumption is the state of a join that is kept while Windows restarts.
type resumption struct {
	Moment           string    `json:"moment"`
	Boot             string    `json:"boot"`
	RestartRequested time.Time `json:"restartRequested"`
	Report           Report    `json:"report"`
	Salt             []byte    `json:"salt"`
	Names            []string  `json:"names"`

	Address     string   `json:"address,omitempty"`
	Port        int      `json:"port,omitempty"`
	EtcdPort    int      `json:"etcdPort,omitempty"`
	OwnSSH      bool     `json:"ownSSH,omitempty"`
	ImageServer string   `json:"imageServer,omitempty"`
	Before      remnants `json:"before,omitempty"`
	// PartsBefore lists the parts of the node before the restart.
	PartsBefore []string `json:"partsBefore,omitempty"`
}

// restart saves the state of a join and restarts Windows. It returns ErrRestarting when Windows ends this process, or immediately in tests.
func (s *session) restart(ctx context.Context, r resumption) error {
	boot, err := s.Host.NextStart.Boot(ctx)
	if err != nil {
		return untriedErrorf("%w", err)
	}
	r.Boot, r.RestartRequested, r.Salt, r.Names = boot, time.Now().UTC(), s.redact.salt, s.redact.names
	text, err := json.Marshal(r)
	if err == nil {
		_, err = s.Host.Disk.WriteFile(resumeFile, string(text))
	}
	if err != nil {
		return untriedErrorf("%w", err)
	}
	s.printf("  restarting Windows")
	if err := s.Host.System.Reboot(ctx, "wmco-acceptance: "+r.Moment, restartDelay); err != nil {
		return errors.Join(err, s.Host.Disk.Remove(resumeFile))
	}
	return ErrRestarting
}

// resumed returns the state that a join saved before Windows restarted, or nil if there is none. It fails if Windows did not restart.
func (s *session) resumed(ctx context.Context) (*resumption, error) {
	if !s.Host.Disk.Exists(resumeFile) {
		return nil, nil
	}
	content, err := s.Host.Disk.Read(resumeFile)
	if err != nil {
		return nil, err
	}
	if err := s.Host.Disk.Remove(resumeFile); err != nil { // a join resumes only once per restart
		return nil, err
	}
	r, err := parseResumption(content)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", resumeFile, err)
	}
	boot, err := s.Host.NextStart.Boot(ctx)
	if err == nil && boot == r.Boot {
		err = errors.New("the run requested a restart of Windows and was interrupted before it: start it again")
	}
	if err != nil {
		return nil, err
	}
	s.redact = newRedactor(r.Salt, append(r.Names, namesHere()...)...)
	return &r, nil
}

func parseResumption(content []byte) (r resumption, err error) {
	if len(content) > maxResume {
		return r, fmt.Errorf("it has more than %d bytes", maxResume)
	}
	if err := json.Unmarshal(content, &r); err != nil {
		return r, err
	}
	if r.Moment != forContainers && r.Moment != asNode {
		return r, fmt.Errorf("unknown moment %.50q", r.Moment)
	}
	return r, nil
}

// containersLine is the first step of a join on a machine without feature Containers.
func containersLine() Line {
	return Line{
		ID: "containers", Title: "Feature Containers", Claim: "DISM enables the feature, and one restart completes it",
		Changes: "enables feature Containers, and restarts Windows; the feature stays, because removing it requires another restart",
	}
}

// containers returns the state of the feature, as reported by DISM.
func (s *session) containers(ctx context.Context) (wicdapi.FeatureState, error) {
	return s.Host.System.Feature(ctx, desired.ContainersFeature)
}

// enableContainers enables the feature as WICD does. reboot is true if the feature takes effect after a restart.
func (s *session) enableContainers(ctx context.Context) (seen string, reboot bool, err error) {
	began := time.Now()
	s.printf("  changing: feature %s", desired.ContainersFeature)
	reboot, err = s.Host.System.EnableFeature(ctx, desired.ContainersFeature)
	return fmt.Sprintf("DISM enabled it after %.1f s, needs a restart: %v", time.Since(began).Seconds(), reboot), reboot, err
}

// pendingOperations returns the operations that Windows has not finished and that a join waits for.
func (s *session) pendingOperations(ctx context.Context) string {
	unfinished, err := s.Host.NextStart.Unfinished(ctx)
	pending, pendingErr := s.Host.NextStart.Waits(ctx)
	if err := errors.Join(err, pendingErr); err != nil {
		return "signs unknown: " + err.Error()
	}
	all := slices.Concat(unfinished.Setup, unfinished.Servicing, pending.All())
	if len(all) == 0 {
		return "nothing is pending"
	}
	return strings.Join(all, "; ")
}

// awaitContainers queries DISM every 2 seconds after a restart, until the feature is enabled. It never restarts again.
func (s *session) awaitContainers(ctx context.Context, requested time.Time) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, featureTimeout)
	defer cancel()
	began := time.Now()
	var history []string
	last := ""
	for {
		got, err := s.containers(ctx)
		state := string(got)
		if err != nil {
			state = "unknown: " + err.Error()
		}
		signs := s.pendingOperations(ctx)
		if now := state + signs; now != last {
			history, last = append(history, fmt.Sprintf("%s at %.0f s (%s)", state, time.Since(began).Seconds(), signs)), now
			s.printf("  %s", history[len(history)-1])
		}
		if err == nil && got == wicdapi.FeatureEnabled {
			s.facts, s.factsFailure = s.Host.System.Facts(ctx)
			return fmt.Sprintf("the program started %.0f s after requesting the restart; then DISM reported: %s", began.Sub(requested).Seconds(), strings.Join(history, ", ")), nil
		}
		if backoff.Sleep(ctx, pollPause) != nil {
			return "", fmt.Errorf("%.0f s after the start, the feature is not enabled; DISM reported: %s", time.Since(began).Seconds(), strings.Join(history, ", "))
		}
	}
}
