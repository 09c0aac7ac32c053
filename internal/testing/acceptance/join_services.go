package acceptance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// The Windows services below a node.
const (
	networkService = "hns"
	computeService = "vmcompute"
)

// startTimeout is how long Windows and WICD may take to start a service after its process was killed.
const startTimeout = time.Minute

// recoveryTimeout is how long a node may take to recover after one of its services restarted.
const recoveryTimeout = 5 * time.Minute

// serviceSteps returns the steps that restart one service each below the node and its pod.
func (j *joining) serviceSteps() (steps []Line) {
	for _, s := range []struct {
		id, title, name, changes string
		restart                  func(context.Context, *session, hostapi.Service) (string, error)
	}{
		{"hns-restarted", "Host Network Service restart", networkService, "restarts service ", stopAndStart},
		{"vmcompute-restarted", "Host Compute Service restart", computeService, "restarts service ", stopAndStart},
		{"containerd-restarted", "Killed containerd", desired.ContainerdService, "kills the process of service ", killProcess},
		{"wicd-restarted", "Killed WICD", api.WICDService, "kills the process of service ", killProcess},
	} {
		steps = append(steps, Line{
			ID: s.id, Title: s.title, Claim: "the whole node and its pod recover within minutes after service " + s.name + " restarts",
			Changes: s.changes + s.name, Try: func(ctx context.Context, ses *session) (string, error) {
				return j.restartService(ctx, ses, s.name, s.restart)
			},
		})
	}
	return steps
}

// stopAndStart restarts a Windows service.
func stopAndStart(ctx context.Context, s *session, service hostapi.Service) (string, error) {
	began := time.Now()
	if err := errors.Join(s.Host.Services.Stop(ctx, service.Name), s.Host.Services.Start(ctx, service.Name)); err != nil {
		return "", fmt.Errorf("restarting service %s: %w", service.Name, err)
	}
	return fmt.Sprintf("the restart took %.1f s", time.Since(began).Seconds()), nil
}

// killProcess kills the process of a service of the node. Windows or WICD must then start it again. Stopping the service instead would also stop the
// services that depend on it, and WICD would start them in the meantime.
func killProcess(ctx context.Context, s *session, service hostapi.Service) (string, error) {
	if s.Kill == nil || service.PID == 0 {
		return "", untriedErrorf("service %s has no process that can be killed", service.Name)
	}
	if err := s.Kill(service.PID); err != nil {
		return "", untriedErrorf("killing the process of service %s: %w", service.Name, err)
	}
	killed := time.Now()
	limit := startTimeout
	if s.Wine {
		limit = startTimeout / 4 // Wine restarts no services
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := await(limited, "nothing restarts service "+service.Name, func(ctx context.Context) (string, error) {
		services, err := s.Host.Services.List(ctx, []string{service.Name})
		if err == nil && len(services) == 1 && services[0].State == hostapi.Running && services[0].PID != service.PID {
			return "", nil
		}
		return fmt.Sprintf("%+v, %v", services, err), nil
	})
	if err == nil {
		return fmt.Sprintf("it was restarted after %.1f s", time.Since(killed).Seconds()), nil
	}
	starting := s.Host.Services.Start(ctx, service.Name)
	if s.Wine {
		return "this program started it", starting
	}
	return "", errors.Join(err, starting)
}

// restartService restarts a service, and reports at some moments afterwards which parts of the node are missing.
func (j *joining) restartService(ctx context.Context, s *session, service string, restart func(context.Context, *session, hostapi.Service) (string, error)) (string, error) {
	if !j.report.wasConfirmed("node-ready") {
		return "", untriedErrorf("it requires a Ready node")
	}
	services, err := s.Host.Services.List(ctx, []string{service})
	if err != nil || len(services) == 0 {
		return "", untriedErrorf("service %s: %w", service, cmp.Or(err, errAbsent))
	}
	boot, err := s.Host.NextStart.Boot(ctx)
	if err != nil {
		return "", untriedErrorf("%w", err)
	}
	before, container := j.present(ctx, boot), j.container(ctx)
	began := time.Now()
	effect, err := restart(ctx, s, services[0])
	if err != nil {
		return "", err
	}
	restarted := time.Now()
	history := []string{effect}
	for _, after := range s.moments() {
		if backoff.Sleep(ctx, time.Until(restarted.Add(after))) != nil {
			return "", untriedErrorf("interrupted")
		}
		state := formatMissing(j.missingParts(ctx, boot), before)
		if state == "" {
			state = "all parts present"
		}
		history = append(history, fmt.Sprintf("%.0f s later: %s", after.Seconds(), state))
		s.printf("  %s", history[len(history)-1])
	}
	limited, cancel := context.WithTimeout(ctx, recoveryTimeout)
	err = j.await(limited, "the node has not recovered", func(ctx context.Context) (string, error) {
		return formatMissing(j.missingParts(ctx, boot), before), nil
	})
	cancel()
	s.record(context.WithoutCancel(ctx), query{"node-hns-" + service + "-restarted", hnsDocuments})
	history = append(history, fmt.Sprintf("all parts present after %.0f s", time.Since(restarted).Seconds()))
	if err != nil {
		history[len(history)-1] = err.Error()
	}
	if container != "" {
		history = append(history, map[bool]string{true: "the pod's container kept running", false: "the pod has a new container"}[j.container(ctx) == container])
	}
	seen := strings.Join(append(history, j.warningsOfNode(ctx, began)...), "\n")
	if err != nil {
		return "", errors.New(seen)
	}
	return seen, nil
}

// moments returns the times after a restart of a service at which the node is checked.
func (s *session) moments() []time.Duration {
	all := []time.Duration{time.Second, 5 * time.Second, 30 * time.Second, time.Minute}
	if s.Wine {
		return all[:2] // its services are stand-ins whose later behavior proves nothing
	}
	return all
}

// present returns the parts of a node that are not missing.
func (j *joining) present(ctx context.Context, boot string) []string {
	missing := j.missingParts(ctx, boot)
	return slices.DeleteFunc(parts(), func(part string) bool { return missing[part] != "" })
}

// formatMissing formats what is missing of the parts that the node had.
func formatMissing(missing map[string]string, before []string) string {
	var texts []string
	for _, part := range before {
		if reason, isMissing := missing[part]; isMissing {
			texts = append(texts, part+": "+reason)
		}
	}
	return strings.Join(texts, "; ")
}

// container returns the ID of the pod's container; empty if there is none.
func (j *joining) container(ctx context.Context) string {
	var pod corev1.Pod
	if err := j.api.get(ctx, ofPods+"/"+testPod, &pod); err != nil || len(pod.Status.ContainerStatuses) == 0 {
		return ""
	}
	return pod.Status.ContainerStatuses[0].ContainerID
}

// warningsOfNode returns the events of type Warning for the node since a time, such as the network repairs that WICD would make.
func (j *joining) warningsOfNode(ctx context.Context, since time.Time) (reported []string) {
	node, err := j.node(ctx)
	if err != nil {
		return nil
	}
	var events corev1.EventList
	if err := j.api.get(ctx, "/api/v1/events?fieldSelector=type=Warning,involvedObject.name="+node.Name, &events); err != nil {
		return []string{"listing the events of the node: " + err.Error()}
	}
	for _, e := range events.Items {
		if last := e.LastTimestamp.Time; last.After(since) || e.EventTime.After(since) {
			reported = append(reported, "event "+e.Reason+": "+e.Message)
		}
	}
	return reported
}
