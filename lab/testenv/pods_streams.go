//go:build linux

package testenv

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
)

// Attach sends input to the program of a pod's first container and returns its output, like "kubectl attach -i". It returns when the program
// has exited.
func (env *Env) Attach(ctx context.Context, p *corev1.Pod, stdin string) (output string, err error) {
	var out strings.Builder
	options := &corev1.PodAttachOptions{Container: p.Spec.Containers[0].Name, Stdin: true, Stdout: true, Stderr: true}
	if err := env.stream(ctx, p, "attach", options, remotecommand.StreamOptions{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: io.Discard}); err != nil {
		return out.String(), fmt.Errorf("attaching to pod %s: %w", p.Name, err)
	}
	return out.String(), nil
}

// Forward forwards a port of 127.0.0.1, which it returns, to a port of a pod, like "kubectl port-forward", until stop.
func (env *Env) Forward(ctx context.Context, p *corev1.Pod, port int) (local uint16, stop func(), err error) {
	transport, upgrader, err := spdy.RoundTripperFor(env.Lab.ControlPlane.RESTConfig())
	if err != nil {
		return 0, nil, fmt.Errorf("forwarding to pod %s: %w", p.Name, err)
	}
	url := env.Clients.CoreV1().RESTClient().Post().Resource("pods").Namespace(p.Namespace).Name(p.Name).SubResource("portforward").URL()
	ends, ready, failed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf(":%d", port)}, ends, ready, io.Discard, io.Discard)
	if err != nil {
		return 0, nil, fmt.Errorf("forwarding to pod %s: %w", p.Name, err)
	}
	go func() { failed <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err = <-failed:
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(time.Minute):
		err = context.DeadlineExceeded
	}
	if err != nil {
		close(ends)
		return 0, nil, fmt.Errorf("forwarding to pod %s: %w", p.Name, err)
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		close(ends)
		return 0, nil, err
	}
	return ports[0].Local, func() { close(ends) }, nil
}
