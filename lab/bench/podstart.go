//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// podStarts is how many pods are started in each way, after one that is not counted.
const podStarts = 9

// measurePods measures pods of a Wine host: how long they take to start, and how long the operator takes to explain why they do not.
func measurePods(ctx context.Context, s *sheet) error {
	if err := errors.Join(lab.CanRunWindows(), lab.CanRunRegistries(), lab.CanRunForwardProxy()); err != nil {
		return fmt.Errorf("a host on Wine, registries and a proxy are required: %w", err)
	}
	st, err := openStage(ctx, s, testenv.Options{WineHosts: 1, Network: testenv.NetworkLab})
	if err != nil {
		return err
	}
	defer st.Close()
	e := explaining{pulls: pulls{stage: st}}
	if err := e.configure(ctx); err != nil {
		return err
	}
	e.host = st.waiting[0]
	if _, err := st.join(ctx, st.waiting); err != nil {
		return err
	}
	return errors.Join(st.measurePodStart(ctx, e.host), e.measure(ctx))
}

// measurePodStart starts a pod by the kubelet and one by containerd alone, in turn, each until the first line of its log.
func (st *stage) measurePodStart(ctx context.Context, host *lab.Host) error {
	var ratios, byKubelet []float64
	for round := range podStarts + 1 {
		kubelet, err := st.startByKubelet(ctx, host, fmt.Sprintf("start-%d", round))
		if err != nil {
			return err
		}
		plain, err := host.StartContainer(ctx, lab.WebserverImage, lab.WebserverProgram+" echo started")
		if err != nil {
			return err
		}
		st.say("A pod started in %.2f s by the kubelet, and in %.2f s by containerd", kubelet, plain)
		if round > 0 {
			ratios, byKubelet = append(ratios, kubelet/plain), append(byKubelet, kubelet)
		}
	}
	st.number("pod.start_seconds", median(byKubelet), "s")
	st.number("pod.start_seconds_over_containerd", median(ratios), "ratio")
	return nil
}

// startByKubelet creates a pod that has its node, and returns the seconds until the first line of its log.
func (st *stage) startByKubelet(ctx context.Context, host *lab.Host, name string) (seconds float64, err error) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}, Spec: corev1.PodSpec{
		NodeName: host.Name(), OS: &corev1.PodOS{Name: corev1.Windows}, RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: new(false),
		Containers: []corev1.Container{{Name: "main", Image: lab.WebserverImage, Command: []string{lab.WebserverProgram, "echo", "started"}}},
	}}
	began := time.Now()
	if err := st.Client.Create(ctx, pod); err != nil {
		return 0, err
	}
	err = st.until(ctx, "pod "+name+" has ended", func(ctx context.Context) (bool, error) {
		err := st.Client.Get(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: name}, pod)
		return pod.Status.Phase == corev1.PodSucceeded, err
	})
	if err != nil {
		return 0, err
	}
	text, err := st.Clients.CoreV1().Pods(pod.Namespace).GetLogs(name, &corev1.PodLogOptions{Timestamps: true}).DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	stamp, _, _ := strings.Cut(string(text), " ")
	wrote, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		return 0, fmt.Errorf("reading the log of pod %s: %w", name, err)
	}
	return wrote.Sub(began).Seconds(), st.Client.Delete(ctx, pod)
}
