//go:build linux

package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
)

// Logs returns the output of the first container of a pod, like "kubectl logs". With follow it returns when the container has
// exited.
func (env *Env) Logs(ctx context.Context, p *corev1.Pod, follow bool) (string, error) {
	stream, err := env.Clients.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{Follow: follow}).Stream(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the log of pod %s: %w", p.Name, err)
	}
	defer stream.Close()
	text, err := io.ReadAll(stream)
	return string(text), err
}

// Exec runs a command in the first container of a pod, like "kubectl exec -i", and returns its output and exit code.
func (env *Env) Exec(ctx context.Context, p *corev1.Pod, stdin string, command ...string) (output string, code int, err error) {
	return env.ExecIn(ctx, p, p.Spec.Containers[0].Name, stdin, command...)
}

// ExecIn is like Exec in a given container.
func (env *Env) ExecIn(ctx context.Context, p *corev1.Pod, container, stdin string, command ...string) (output string, code int, err error) {
	var out, failures bytes.Buffer
	options := &corev1.PodExecOptions{Container: container, Command: command, Stdin: true, Stdout: true, Stderr: true}
	err = env.stream(ctx, p, "exec", options, remotecommand.StreamOptions{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &failures})
	output = out.String() + failures.String()
	var exit exec.CodeExitError
	if errors.As(err, &exit) {
		return output, exit.Code, nil
	}
	if err != nil {
		return output, 0, fmt.Errorf("running %q in pod %s: %w", command, p.Name, err)
	}
	return output, 0, nil
}

// stream connects streams with a subresource of a pod.
func (env *Env) stream(ctx context.Context, p *corev1.Pod, subresource string, options runtime.Object, streams remotecommand.StreamOptions) error {
	request := env.Clients.CoreV1().RESTClient().Post().Resource("pods").Namespace(p.Namespace).Name(p.Name).SubResource(subresource).
		VersionedParams(options, scheme.ParameterCodec)
	executor, err := remotecommand.NewWebSocketExecutor(env.Lab.ControlPlane.RESTConfig(), http.MethodGet, request.URL().String())
	if err != nil {
		return err
	}
	return executor.StreamWithContext(ctx, streams)
}
