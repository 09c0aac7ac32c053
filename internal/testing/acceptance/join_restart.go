package acceptance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/testing/controlplane"
)

// restarts reports whether the join restarts the node.
func (j *joining) restarts() bool {
	return slices.Contains(j.options.Allowed, RestartAllowed) && j.options.InService
}

// restartNode is a step of the join: it restarts Windows, and then reports when each part of the node is back.
func (j *joining) restartNode(ctx context.Context, s *session) (string, error) {
	switch {
	case !j.restarts():
		return "", untriedErrorf("it requires --%s-allowed", RestartAllowed)
	case !j.report.wasConfirmed("node-ready"):
		return "", untriedErrorf("it requires a Ready node")
	case j.restartRequested.IsZero():
		j.restartRequested = time.Now()
		s.record(ctx, query{"node-hns-before", hnsDocuments})
		boot, err := s.Host.NextStart.Boot(ctx)
		if err != nil {
			return "", untriedErrorf("%w", err)
		}
		return "", s.restart(ctx, resumption{
			Moment: asNode, Report: *j.report, Address: j.address, Port: j.config.Port, EtcdPort: j.config.EtcdPort, OwnSSH: j.ownSSH,
			ImageServer: j.imageServer, Before: j.before, PartsBefore: j.present(ctx, boot),
		})
	}
	return j.watchRestart(ctx, s)
}

// resumeNode restores a join after the restart, with the former ports, addresses and credentials.
func (s *session) resumeNode(ctx context.Context, o JoinOptions, r *Report, after *resumption) (*joining, error) {
	s.facts, s.factsFailure = s.Host.System.Facts(ctx)
	j := newJoining(s, o, after.Address)
	j.report, j.before, j.ownSSH, j.restartRequested = r, after.Before, after.OwnSSH, after.RestartRequested
	j.partsBefore, j.config.Port, j.config.EtcdPort = after.PartsBefore, after.Port, after.EtcdPort
	files := map[string][]byte{}
	for _, name := range []string{"ca.crt", "admin.crt", "admin.key"} {
		content, err := os.ReadFile(j.path(name))
		if err != nil {
			return nil, err
		}
		files[name] = content
	}
	j.credentials = controlplane.Credentials{
		CA: &controlplane.Authority{PEM: files["ca.crt"]}, Admin: controlplane.Pair{Cert: files["admin.crt"], Key: files["admin.key"]},
	}
	if after.ImageServer != "" {
		if err := j.serveImages(after.ImageServer); err != nil {
			return nil, err
		}
	}
	var err error
	if j.api, err = newAPIServer(j.config.URL(), j.credentials); err != nil {
		return nil, err
	}
	return j, nil
}

// restartPrograms starts the programs that ended with Windows.
func (j *joining) restartPrograms(ctx context.Context) error {
	if _, err := j.startParts(ctx); err != nil {
		return err
	}
	if j.ownSSH {
		if err := j.startSSH(); err != nil {
			return err
		}
	}
	return j.startOperatorProcess()
}

// restartTimeout is how long a node may take to be back.
const restartTimeout = 12 * time.Minute

// watchRestart checks every second which parts of the node are back.
func (j *joining) watchRestart(ctx context.Context, s *session) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, restartTimeout)
	defer cancel()
	if err := j.restartPrograms(ctx); err != nil {
		return "", untriedErrorf("%w", err)
	}
	boot, err := j.Host.NextStart.Boot(ctx)
	if err != nil {
		return "", untriedErrorf("%w", err)
	}
	var history []string
	back := map[string]bool{}
	err = j.await(ctx, "the node has not recovered", func(ctx context.Context) (string, error) {
		missing := j.missingParts(ctx, boot)
		for _, part := range j.partsBefore {
			if _, isMissing := missing[part]; isMissing == back[part] {
				back[part] = !isMissing
				state := "back"
				if isMissing {
					state = "missing again"
				}
				history = append(history, fmt.Sprintf("%s %s at %.0f s", part, state, time.Since(j.restartRequested).Seconds()))
				s.printf("  %s", history[len(history)-1])
			}
		}
		return formatMissing(missing, j.partsBefore), nil
	})
	s.record(context.WithoutCancel(ctx), query{"node-hns-after", hnsDocuments})
	network := j.report.networkFacts(networkOfNode + "-").compare(s.recordNetwork(context.WithoutCancel(ctx), "restarted"))
	seen := "after the restart request: " + strings.Join(history, ", ") + "\n" + network
	if err != nil {
		return "", fmt.Errorf("%w; %s", err, seen)
	}
	return seen, nil
}

// parts returns the parts of a node that are checked.
func parts() []string {
	return []string{"services", "network", "endpoint of the host", "load balancers", "node", "pod"}
}

// missingParts returns, for each missing part of the node, why it is missing.
func (j *joining) missingParts(ctx context.Context, boot string) map[string]string {
	missing := map[string]string{}
	services, err := j.Host.Services.List(ctx, desired.Services())
	if err != nil {
		missing["services"] = err.Error()
	}
	for _, s := range services {
		if s.State != hostapi.Running {
			missing["services"] = s.Name + " is " + string(s.State)
		}
	}
	state, err := j.Host.Networks.List(ctx)
	if err != nil {
		missing["network"] = err.Error()
	}
	if !slices.ContainsFunc(state.Networks, func(n hns.Network) bool { return isProductNetwork(n.Name) }) {
		missing["network"] = "not found"
	}
	hostHas := false
	for _, e := range state.Endpoints {
		hostHas = hostHas || e.Host
	}
	if !hostHas {
		missing["endpoint of the host"] = "not found"
	}
	if len(state.LoadBalancers) == 0 {
		missing["load balancers"] = "not found"
	}
	if reason := j.whyNodeNotReady(ctx, boot); reason != "" {
		missing["node"] = reason
	}
	if reason := j.whyPodNotReady(ctx); reason != "" {
		missing["pod"] = reason
	}
	return missing
}

// whyNodeNotReady returns why the Node is not Ready again. It compares the boot ID, because the Node's status may be from before the restart.
func (j *joining) whyNodeNotReady(ctx context.Context, boot string) string {
	node, err := j.node(ctx)
	if err != nil {
		return err.Error()
	}
	if node.Status.NodeInfo.BootID != boot {
		return "its kubelet has not reported the restart of Windows"
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}

func (j *joining) whyPodNotReady(ctx context.Context) string {
	if !j.report.wasConfirmed("pod") {
		return "" // there was no pod
	}
	var pod corev1.Pod
	if err := j.api.get(ctx, ofPods+"/"+testPod, &pod); err != nil && !errors.Is(err, errAbsent) {
		return err.Error()
	}
	return j.whyNotReady(ctx, pod)
}

func (r *Report) wasConfirmed(id string) bool {
	return slices.ContainsFunc(r.Lines, func(a Answer) bool { return a.ID == id && a.Verdict == Confirmed })
}
