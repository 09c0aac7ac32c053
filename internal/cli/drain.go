package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
	"github.com/windows-machine-config/wmco/internal/operator/drain"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// cordonAndDrain returns the command that takes nodes out of service, as kubectl drain does.
func cordonAndDrain(s *session.Session) *cobra.Command {
	a := &action{s: s}
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "cordon-and-drain HOST...",
		Short: "Cordon nodes and evict their pods",
		Long: "Cordon the nodes of hosts and evict their pods, with the pods' own grace periods and within their PodDisruptionBudgets. Pods of\n" +
			"DaemonSets, static pods and completed pods stay. Wait until the pods have left, and print which ones remain, and why.\n\n" +
			"The nodes stay cordoned until you run kubectl uncordon; the operator does not uncordon them. They count as out of service.",
		Example:           "  kubectl windows cordon-and-drain win-1 --timeout 30m",
		Args:              someHosts,
		ValidArgsFunction: completeHosts(s),
		RunE: func(c *cobra.Command, args []string) error {
			hosts, err := a.checked(c.Context(), args, func(h fleetstatus.Host) error {
				if h.Node == "" {
					return session.Failf(session.CodeFailed, "host %s has no Node: its state is %s (%s)", h.Name, h.State, h.Reason)
				}
				return nil
			})
			if err != nil {
				return err
			}
			if err := a.confirm("Evict all pods of " + strings.Join(args, ", ") + "?"); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(c.Context(), timeout)
			defer cancel()
			for _, h := range hosts {
				if err := a.drain(ctx, h, timeout); err != nil {
					return err
				}
			}
			return nil
		},
	}
	a.addYes(c)
	c.Flags().DurationVar(&timeout, "timeout", time.Hour, "How long to wait for the pods to leave.")
	return c
}

// drainPause is the pause between two attempts to evict the remaining pods.
const drainPause = 2 * time.Second

func (a *action) drain(ctx context.Context, h fleetstatus.Host, timeout time.Duration) error {
	if err := a.changeNode(ctx, h.Node, "cordoned", func(n *corev1.Node) { n.Spec.Unschedulable = true }); err != nil {
		return err
	}
	reported, target := "", drain.Node{Name: h.Node, Began: a.s.Now()}
	for {
		var list corev1.PodList
		if err := a.List(ctx, &list, client.MatchingFields{"spec.nodeName": h.Node}); err != nil {
			return a.drainEnded(ctx, err, h, timeout, reported)
		}
		if target.Youngest.IsZero() {
			target.Youngest = drain.Youngest(list.Items)
		}
		pods := drain.Look(list.Items, target, a.s.Now())
		if pods.Gone() {
			if len(pods.Came) > 0 {
				fmt.Fprintf(a.s.Out, "node/%s keeps pods that arrived after it was cordoned: %s\n", h.Node, truncate.Printable(drain.Names(pods.Came), truncate.Reported))
			}
			fmt.Fprintf(a.s.Out, "node/%s drained\n", h.Node)
			return nil
		}
		refused, err := a.evict(ctx, pods.Evict)
		if err != nil {
			return a.drainEnded(ctx, err, h, timeout, reported)
		}
		if reason, message := drain.Report(pods, refused, false); message != reported {
			reported = message
			fmt.Fprintf(a.s.Out, "node/%s %s: %s\n", h.Node, reason, truncate.Printable(message, truncate.Reported))
		}
		select {
		case <-ctx.Done():
			return a.drainEnded(ctx, ctx.Err(), h, timeout, reported)
		case <-time.After(drainPause):
		}
	}
}

// drainEnded returns why a drain did not complete.
func (a *action) drainEnded(ctx context.Context, err error, h fleetstatus.Host, timeout time.Duration, reported string) error {
	if ctx.Err() == context.DeadlineExceeded {
		return session.Failf(session.CodeTimeout, "node %s was not drained within %s and stays cordoned: %s", h.Node, timeout, truncate.Printable(reported, truncate.Reported))
	}
	return session.Explain(err, "draining Node "+h.Node)
}

// evict evicts pods and returns why evictions were refused.
func (a *action) evict(ctx context.Context, pods []corev1.Pod) (refused map[string]string, err error) {
	refused = map[string]string{}
	for i := range pods {
		pod := &pods[i]
		err := a.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}})
		switch {
		case err == nil || apierrors.IsNotFound(err):
		case apierrors.IsTooManyRequests(err), apierrors.IsInternalError(err): // refused by a PodDisruptionBudget, or by two that match the pod
			refused[drain.Name(pod)] = err.Error()
		default:
			return nil, session.Explain(err, "evicting pod "+drain.Name(pod))
		}
	}
	return refused, nil
}
