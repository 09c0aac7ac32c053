//go:build linux

package testenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubectl/pkg/util/podutils"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/lab"
)

// OperatorPod is the operator as users run it: the Deployment of deploy/, with the image that make image builds, on a Linux node.
type OperatorPod struct {
	// Node is the control plane node.
	Node *lab.LinuxNode

	env           *Env
	images        *lab.Registry
	program, tool string // the operator's executable, and the program that builds images
}

// OperatorRepository is the image's name in deploy/deployment.yaml.
const OperatorRepository = "ghcr.io/windows-machine-config/wmco"

// startPod starts the Linux node, and builds the tools for images.
func (env *Env) startPod(ctx context.Context, root string, o Options) (err error) {
	p := &OperatorPod{env: env, images: env.images}
	if p.images == nil {
		if p.images, err = env.Lab.StartRegistry(ctx, lab.RegistryOptions{Open: true}); err != nil {
			return err
		}
	}
	p.program, p.tool = filepath.Join(env.folder.Path, "wmco"), filepath.Join(env.folder.Path, "image")
	err = errors.Join(
		lab.BuildProgram(ctx, root, operatorPackage, p.program, lab.BuildOptions{FIPS: o.FIPS}, o.Log),
		buildImageTool(ctx, root, p.tool, o.Log))
	if err != nil {
		return err
	}
	if p.Node, err = env.Lab.StartLinuxNode(ctx, linuxNode, p.images); err != nil {
		return err
	}
	env.Pod = p
	return nil
}

// buildImageTool builds the program behind make image.
func buildImageTool(ctx context.Context, root, out string, progress io.Writer) error {
	return lab.BuildProgram(ctx, filepath.Join(root, "release"), "./image/cmd", out, lab.BuildOptions{}, progress)
}

// Registry returns the registry from which the node pulls all images, whatever their names are. This machine can push to its Address,
// without TLS.
func (p *OperatorPod) Registry() *lab.Registry { return p.images }

// Push builds the operator's image with a payload and pushes it, so that the node pulls it as OperatorRepository with the tag. Like its
// operator, the image has no release version.
func (p *OperatorPod) Push(ctx context.Context, payload, tag string) error {
	_, repository, _ := strings.Cut(OperatorRepository, "/")
	command := exec.CommandContext(ctx, p.tool, "--payload", payload, "--operator", runtime.GOARCH+"="+p.program,
		"--created", "2026-01-01T00:00:00Z", "--push", p.images.Address+"/"+repository+":"+tag, "--plain-http")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("pushing the operator's image: %w: %s", err, out)
	}
	return nil
}

// Upgrade installs the operator with another tag of its image, as a user would.
func (p *OperatorPod) Upgrade(ctx context.Context, tag string) error {
	return p.change(ctx, func(c *corev1.Container) { c.Image = OperatorRepository + ":" + tag })
}

// enforceFIPS makes Go reject cryptography that FIPS 140-3 does not approve.
func (p *OperatorPod) enforceFIPS(ctx context.Context) error {
	return p.change(ctx, func(c *corev1.Container) {
		c.Env = append(c.Env, corev1.EnvVar{Name: "GODEBUG", Value: "fips140=only"})
	})
}

// change changes the container of the Deployment.
func (p *OperatorPod) change(ctx context.Context, change func(*corev1.Container)) error {
	var d appsv1.Deployment
	if err := p.env.Client.Get(ctx, operatorName(), &d); err != nil {
		return err
	}
	before := d.DeepCopy()
	change(&d.Spec.Template.Spec.Containers[0])
	return p.env.Client.Patch(ctx, &d, client.MergeFrom(before))
}

// operatorName returns the name of the operator's Deployment and of its ServiceAccount.
func operatorName() types.NamespacedName {
	return types.NamespacedName{Namespace: api.DefaultNamespace, Name: OperatorAccount}
}

// Running returns the Ready pod of the operator, or an error if it has none.
func (p *OperatorPod) Running(ctx context.Context) (*corev1.Pod, error) {
	var pods corev1.PodList
	err := p.env.Client.List(ctx, &pods, client.InNamespace(api.DefaultNamespace), client.MatchingLabels{"app.kubernetes.io/name": OperatorAccount})
	if err != nil {
		return nil, err
	}
	var states []string
	for _, pod := range pods.Items {
		if podutils.IsPodReady(&pod) && pod.DeletionTimestamp == nil {
			return &pod, nil
		}
		states = append(states, fmt.Sprintf("%s is %s, %+v", pod.Name, pod.Status.Phase, pod.Status.ContainerStatuses))
	}
	return nil, fmt.Errorf("no pod of the operator is Ready: %v", states)
}

// WaitUntilReady waits until the operator has a Ready pod, and returns it.
func (p *OperatorPod) WaitUntilReady(ctx context.Context) (pod *corev1.Pod, err error) {
	ctx, cancel := context.WithTimeout(ctx, lab.Timeout(2*time.Minute))
	defer cancel()
	err = lab.Until(ctx, 50*time.Millisecond, "the operator's pod", func(ctx context.Context) (err error) {
		pod, err = p.Running(ctx)
		return err
	}, nil)
	return pod, err
}

// Container returns the container of the operator's pod, on its node.
func (p *OperatorPod) Container(ctx context.Context) (lab.Container, error) {
	pod, err := p.Running(ctx)
	if err != nil {
		return lab.Container{}, err
	}
	return p.Node.Container(pod.Status.ContainerStatuses[0].ContainerID)
}

// Log returns the logs of the operator's pods and of their previous containers.
func (p *OperatorPod) Log(ctx context.Context) string {
	var b strings.Builder
	pods, err := p.env.Clients.CoreV1().Pods(api.DefaultNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	for _, pod := range pods.Items {
		for _, previous := range []bool{true, false} {
			text, err := p.env.Clients.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Previous: previous}).DoRaw(ctx)
			if err == nil {
				b.Write(text)
			}
		}
	}
	return b.String()
}
