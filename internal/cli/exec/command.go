// Package exec implements kubectl windows exec: it runs a command on a Windows host, in a HostProcess pod that lasts as long as the command.
package exec

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/internal/cli/nodefiles"
	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/cli/terminal"
	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

type options struct {
	image, user string
	timeout     time.Duration
	raw         bool
}

// Command returns the command kubectl windows exec.
func Command(s *session.Session) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "exec HOST -- COMMAND [ARGUMENT...]",
		Short: "Run a command on a host, in a HostProcess pod",
		Long: "Run a command on a host as SYSTEM, print its output, and exit with its exit code. The command runs in a HostProcess pod in the\n" +
			"operator's namespace, from an image that the node already has, and the pod is deleted at the end. The command has no input and no\n" +
			"terminal. On a terminal, escape sequences in its output other than colors are printed as text; --raw passes them through.\n\n" +
			"You need permission to create, get and delete pods and to get pods/log in that namespace, which must admit privileged pods; on\n" +
			"OpenShift, also SecurityContextConstraints that allow HostProcess, such as privileged.",
		Example: "  kubectl windows exec win-1 -- ipconfig /all\n  kubectl windows exec win-1 -- powershell -Command \"Get-HnsNetwork | ConvertTo-Json\"",
		Args: func(c *cobra.Command, args []string) error {
			if c.ArgsLenAtDash() != 1 || len(args) < 2 {
				return session.Failf(session.CodeUsage, "%s requires a host, two hyphens and a command, as in %s win-1 -- ipconfig /all", c.CommandPath(), c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return run(c.Context(), s, o, args[0], args[1:]) },
	}
	c.Flags().StringVar(&o.image, "image", "", "Image of the pod. Defaults to one that the node has: a base image for HostProcess pods, or its sandbox image.")
	c.Flags().StringVar(&o.user, "run-as", `NT AUTHORITY\SYSTEM`, `User to run the command as: NT AUTHORITY\SYSTEM, NT AUTHORITY\LocalService or NT AUTHORITY\NetworkService.`)
	c.Flags().BoolVar(&o.raw, "raw", false, "Print the output to a terminal unchanged. It can then set the clipboard and the title, and hide earlier output.")
	c.Flags().DurationVar(&o.timeout, "timeout", 10*time.Minute, "Deadline for the command.")
	return c
}

// Deadlines in addition to the command's own.
const (
	startTimeout  = 3 * time.Minute
	removeTimeout = 15 * time.Second
	pollInterval  = 500 * time.Millisecond
)

func run(ctx context.Context, s *session.Session, o options, host string, command []string) error {
	in, err := s.Read(ctx)
	if err != nil {
		return err
	}
	name, err := session.NodeOf(fleetstatus.Of(in), host)
	if err != nil {
		return err
	}
	k, err := s.Client()
	if err != nil {
		return err
	}
	var node corev1.Node
	if err := k.Get(ctx, types.NamespacedName{Name: name}, &node); err != nil {
		if apierrors.IsNotFound(err) {
			return session.Failf(session.CodeNotFound, "no host or node %q", host)
		}
		return session.Explain(err, "reading node "+name)
	}
	if os := node.Labels[corev1.LabelOSStable]; os != string(corev1.Windows) {
		return session.Failf(session.CodeUsage, "node %s is not a Windows node (label %s is %q)", node.Name, corev1.LabelOSStable, truncate.Printable(os, truncate.Reported))
	}
	if o.image == "" {
		o.image = imageOf(&node)
	}
	pod := podFor(&node, in.Namespace, o, command)
	if err := k.Create(ctx, pod); err != nil {
		return session.Explain(err, "creating pod "+pod.Name+" in namespace "+pod.Namespace)
	}
	defer func() {
		later, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
		defer cancel()
		if err := k.Delete(later, pod, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
			fmt.Fprintf(s.ErrOut, "warning: pod %s was not deleted; run kubectl -n %s delete pod %s --force (%v)\n", pod.Name, pod.Namespace, pod.Name, err)
		}
	}()
	return watch(ctx, s, k, pod, o)
}

// imageOf returns an image that the node has, or that its kubelet can pull: the smallest suitable one.
func imageOf(node *corev1.Node) string {
	for _, part := range []string{"windows-host-process-containers-base-image", "pause"} {
		for _, image := range node.Status.Images {
			i := slices.IndexFunc(image.Names, func(name string) bool { return strings.Contains(name, part) && !strings.Contains(name, "@") })
			if i >= 0 {
				return image.Names[i]
			}
		}
	}
	return "mcr.microsoft.com/oss/kubernetes/pause:3.9"
}

// podFor returns the pod. It is bound to its node, so neither the scheduler nor a cordon can prevent it from running.
func podFor(node *corev1.Node, namespace string, o options, command []string) *corev1.Pod {
	yes, no, seconds := true, false, int64((o.timeout + startTimeout).Seconds())
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "windows-exec-" + rand.String(8),
			Labels:      map[string]string{"app.kubernetes.io/name": "kubectl-windows-exec"},
			Annotations: map[string]string{"openshift.io/required-scc": "privileged"},
		},
		Spec: corev1.PodSpec{
			NodeName: node.Name, HostNetwork: true, RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: &no,
			EnableServiceLinks: &no, ActiveDeadlineSeconds: &seconds, OS: &corev1.PodOS{Name: corev1.Windows},
			Tolerations:     []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			SecurityContext: &corev1.PodSecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{HostProcess: &yes, RunAsUserName: &o.user}},
			Containers: []corev1.Container{{
				Name: "exec", Image: o.image, ImagePullPolicy: corev1.PullIfNotPresent, Command: command[:1], Args: command[1:],
			}},
		},
	}
}

// watch shows the output and returns when the command has ended.
func watch(ctx context.Context, s *session.Session, k client.Client, pod *corev1.Pod, o options) error {
	limited, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if _, err := await(limited, k, pod, func(state corev1.ContainerState) bool { return state.Running != nil || state.Terminated != nil }); err != nil {
		return ended(ctx, err, "the container did not start", startTimeout)
	}
	limited, cancel = context.WithTimeout(ctx, o.timeout)
	defer cancel()
	output := make(chan error, 1)
	go func() { output <- copyLog(limited, s, pod, o.raw) }()
	state, err := await(limited, k, pod, func(state corev1.ContainerState) bool { return state.Terminated != nil })
	if err != nil {
		return ended(ctx, err, "the command did not end", o.timeout)
	}
	if err := <-output; err != nil {
		return err
	}
	if code := int(state.Terminated.ExitCode); code != 0 {
		return &session.Failure{Code: code, Err: errors.New(reasonOf(state.Terminated))}
	}
	return nil
}

// reasonOf returns why a container ended; empty if the command failed on its own, since its output explains that.
func reasonOf(t *corev1.ContainerStateTerminated) string {
	if t.Message == "" || t.Reason == "Error" {
		return ""
	}
	return truncate.Printable(t.Reason+": "+t.Message, truncate.Note)
}

func ended(ctx context.Context, err error, problem string, timeout time.Duration) error {
	switch {
	case ctx.Err() != nil:
		return session.Failf(session.CodeFailed, "interrupted")
	case errors.Is(err, context.DeadlineExceeded):
		return session.Failf(session.CodeTimeout, "%s within %s: kubectl windows describe shows the node's state", problem, timeout)
	}
	return err
}

// await waits for a state of the container. It returns an error if the container cannot start.
func await(ctx context.Context, k client.Client, pod *corev1.Pod, matches func(corev1.ContainerState) bool) (state corev1.ContainerState, err error) {
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		var now corev1.Pod
		err := k.Get(ctx, client.ObjectKeyFromObject(pod), &now)
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case apierrors.IsNotFound(err):
			return false, session.Failf(session.CodeFailed, "pod %s was deleted", pod.Name)
		case err != nil:
			return false, session.Explain(err, "reading pod "+pod.Name)
		}
		if list := now.Status.ContainerStatuses; len(list) > 0 {
			state = list[0].State
		}
		return matches(state), refused(&now)
	})
	return state, err
}

func refused(pod *corev1.Pod) error {
	if list := pod.Status.ContainerStatuses; len(list) > 0 && list[0].State.Waiting != nil {
		waiting := list[0].State.Waiting
		if slices.Contains([]string{"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CreateContainerError", "CreateContainerConfigError", "RunContainerError"}, waiting.Reason) {
			return session.Failf(session.CodeFailed, "the container cannot start: %s: %s; choose another image with --image",
				waiting.Reason, truncate.Printable(waiting.Message, truncate.Note))
		}
	}
	if pod.Status.Phase == corev1.PodFailed && len(pod.Status.ContainerStatuses) == 0 {
		return session.Failf(session.CodeFailed, "the kubelet rejected the pod: %s: %s", truncate.Printable(pod.Status.Reason, truncate.Quoted), truncate.Printable(pod.Status.Message, truncate.Note))
	}
	return nil
}

// copyLog copies the output of the container until it ends. It sanitizes the output for terminals, unless raw.
func copyLog(ctx context.Context, s *session.Session, pod *corev1.Pod, raw bool) error {
	config, err := s.Config()
	if err != nil {
		return err
	}
	logs, err := nodefiles.New(config)
	if err != nil {
		return err
	}
	stream, err := logs.Stream(ctx, "/api/v1/namespaces/"+pod.Namespace+"/pods/"+pod.Name+"/log", url.Values{"follow": {"true"}})
	if err != nil {
		return err
	}
	defer stream.Close()
	out := s.Out
	if !raw && terminal.IsTerminal(s.Out) {
		safe := terminal.NewSanitizer(s.Out)
		defer safe.Close()
		out = safe
	}
	_, err = io.Copy(out, bufio.NewReader(stream))
	if ctx.Err() != nil {
		return nil
	}
	return err
}
