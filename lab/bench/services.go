//go:build linux

package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// requests is how many requests are sent to each address.
const requests = 400

// measureServices measures what a Service adds to a request of a pod on one host to a pod on another.
func measureServices(ctx context.Context, s *sheet) error {
	if err := lab.CanBalance(); err != nil {
		return err
	}
	st, err := openStage(ctx, s, testenv.Options{WineHosts: 2, Network: testenv.NetworkHybridOverlay, Pods: true})
	if err != nil {
		return err
	}
	defer st.Close()
	hosts := st.waiting
	if _, err := st.join(ctx, hosts); err != nil {
		return err
	}
	client, err := st.podOn(ctx, "client", hosts[0].Name())
	if err != nil {
		return err
	}
	server, err := st.podOn(ctx, "server", hosts[1].Name())
	if err != nil {
		return err
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "server"}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": "server"},
		Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(testenv.WebserverPort)}},
	}}
	if err := st.Client.Create(ctx, service); err != nil {
		return err
	}
	through := "http://" + service.Spec.ClusterIP
	err = st.until(ctx, "the Service answers", func(ctx context.Context) (bool, error) {
		output, code, err := st.Exec(ctx, client, "", "webserver", "get", through)
		return code == 0 && strings.TrimSpace(output) == server.Name, err
	})
	if err != nil {
		return err
	}
	direct := fmt.Sprintf("http://%s:%d", server.Status.PodIP, testenv.WebserverPort)
	output, code, err := st.Exec(ctx, client, "", "webserver", "time", strconv.Itoa(requests), direct, through)
	if err != nil || code != 0 {
		return fmt.Errorf("sending requests: code %d (%w): %s", code, err, output)
	}
	took, err := columns(output, 2)
	if err != nil {
		return err
	}
	directly, byService := median(took[0]), median(took[1])
	st.number("service.first_byte_ms", byService/1000, "ms")
	st.number("service.first_byte_direct_ms", directly/1000, "ms")
	st.number("service.first_byte_ratio", byService/directly, "ratio")
	return nil
}

// podOn runs a pod on a host.
func (st *stage) podOn(ctx context.Context, name, host string) (running *corev1.Pod, err error) {
	_, err = st.WinWebserver(ctx, name, 1, func(d *appsv1.Deployment) { d.Spec.Template.Spec.NodeSelector[corev1.LabelHostname] = host })
	if err != nil {
		return nil, err
	}
	err = st.until(ctx, "pod "+name+" serves", func(ctx context.Context) (bool, error) {
		pods, err := st.Pods(ctx, name)
		if err != nil || len(pods) != 1 || st.Serves(ctx, &pods[0]) != "" {
			return false, err
		}
		running = &pods[0]
		return true, nil
	})
	return running, err
}

// columns reads lines of as many numbers each.
func columns(text string, count int) ([][]float64, error) {
	all := make([][]float64, count)
	for line := range strings.Lines(strings.TrimSpace(text)) {
		fields := strings.Fields(line)
		if len(fields) != count {
			return nil, fmt.Errorf("want %d numbers, got %q", count, line)
		}
		for i, f := range fields {
			n, err := strconv.ParseFloat(f, 64)
			if err != nil {
				return nil, fmt.Errorf("want %d numbers, got %q", count, line)
			}
			all[i] = append(all[i], n)
		}
	}
	if len(all[0]) == 0 {
		return nil, fmt.Errorf("want %d columns, got %q", count, text)
	}
	return all, nil
}
