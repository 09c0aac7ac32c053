package exec_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/cli/clitest"
	"github.com/windows-machine-config/wmco/internal/cli/session"
)

const podsPath = "/api/v1/namespaces/" + api.DefaultNamespace + "/pods/"

// newCluster returns a cluster with host win-1 and a kubelet that gives each pod this status.
func newCluster(t *testing.T, setStatus func(*corev1.Pod)) (*clitest.Cluster, *[]corev1.Pod) {
	t.Helper()
	const instances = api.GroupName + "/v1alpha1/windowsinstances"
	c := clitest.New(t, "/apis/"+api.GroupName+"/v1alpha1/windowsconfigs", "/api/v1/pods", "/api/v1/events", "/apis/apps/v1/deployments")
	i := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Name: "win-1", Namespace: api.DefaultNamespace}}
	i.Status.NodeRef = &v1alpha1.NodeReference{Name: "win-1"}
	c.Add(instances, i)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "win-1", Labels: map[string]string{corev1.LabelOSStable: "windows"}}}
	n.Status.Images = []corev1.ContainerImage{{Names: []string{"registry.example/pause@sha256:1", "registry.example/pause:3.9"}}}
	c.Add("v1/nodes", n)
	c.Add("v1/nodes", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "linux-1", Labels: map[string]string{corev1.LabelOSStable: "linux"}}})
	seen := &[]corev1.Pod{}
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
			for _, p := range c.Pods() {
				if p.Status.Phase == "" {
					*seen = append(*seen, *p.DeepCopy())
					p.Status.Phase = corev1.PodRunning
					setStatus(p)
					c.Add("v1/pods", p)
				}
			}
		}
	}()
	handleLogs(c, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "output of the command") })
	return c, seen
}

// handleLogs has requests for logs of pods handled.
func handleLogs(c *clitest.Cluster, handle http.HandlerFunc) {
	c.Handle(podsPath, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/log") {
			handle(w, r)
			return
		}
		c.Objects().ServeHTTP(w, r)
	}))
}

func terminated(code int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Error"}}}}
	}
}

func TestExecRunsCommand(t *testing.T) {
	c, seen := newCluster(t, terminated(3))
	r := c.Run(t, "", "exec", "win-1", "--", "ipconfig", "/all")
	if r.Code != 3 || r.Out != "output of the command\n" || r.Err != "" {
		t.Errorf("exit code %d, %q, %q", r.Code, r.Out, r.Err)
	}
	if len(c.Pods()) > 0 {
		t.Errorf("pods remain: %+v", c.Pods())
	}
	if len(*seen) == 0 {
		t.Fatal("no pod was created")
	}
	spec := (*seen)[0].Spec
	options := spec.SecurityContext.WindowsOptions
	if spec.NodeName != "win-1" || !spec.HostNetwork || !*options.HostProcess || *options.RunAsUserName != `NT AUTHORITY\SYSTEM` ||
		spec.Containers[0].Image != "registry.example/pause:3.9" || spec.Containers[0].Command[0] != "ipconfig" || spec.Containers[0].Args[0] != "/all" {
		t.Errorf("the pod is %+v", spec)
	}
}

func TestExecFailuresAreReported(t *testing.T) {
	for name, test := range map[string]struct {
		is   func(*corev1.Pod)
		deny string
		args []string
		code int
		say  string
	}{
		"no image": {is: func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}}}}
		}, code: session.CodeFailed, say: "choose another image with --image"},
		"the kubelet refuses": {is: func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, "OutOfpods" }, code: session.CodeFailed, say: "OutOfpods"},
		"it takes too long": {is: func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		}, args: []string{"exec", "--timeout", "1s", "win-1", "--", "x"}, code: session.CodeTimeout, say: "did not end within 1s"},
		"no right":     {is: terminated(0), deny: "POST /api/v1/namespaces", code: session.CodeForbidden, say: "missing permission: create"},
		"a Linux node": {is: terminated(0), args: []string{"exec", "linux-1", "--", "x"}, code: session.CodeUsage, say: "not a Windows node"},
		"no such host": {is: terminated(0), args: []string{"exec", "win-9", "--", "x"}, code: session.CodeNotFound, say: `no host or node "win-9"`},
		"no command":   {is: terminated(0), args: []string{"exec", "win-1", "x"}, code: session.CodeUsage, say: "two hyphens"},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := newCluster(t, test.is)
			if test.deny != "" {
				c.Deny(test.deny)
			}
			if test.args == nil {
				test.args = []string{"exec", "win-1", "--", "x"}
			}
			r := c.Run(t, "", test.args...)
			if r.Code != test.code || !strings.Contains(r.Err, test.say) {
				t.Errorf("exit code %d, %q", r.Code, r.Err)
			}
			if len(c.Pods()) > 0 {
				t.Errorf("pods remain: %+v", c.Pods())
			}
		})
	}
}
