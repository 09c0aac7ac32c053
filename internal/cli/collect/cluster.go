package collect

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
)

// Limits of reads from the API server.
const (
	maxObjects = 64 << 20
	maxLog     = 16 << 20
	logLines   = 50_000
)

// cluster adds data from the API server. The manifest lists what could not be read.
func (c *collector) cluster(ctx context.Context, fleet fleetstatus.Fleet, timeout time.Duration) {
	text, err := json.MarshalIndent(fleet, "", " ")
	if err == nil {
		text, err = c.masked(text)
	}
	c.archive.cluster("status.json", text, err)
	const group = "/apis/" + api.GroupName + "/v1alpha1"
	core, namespaced := "/api/v1", "/api/v1/namespaces/"+fleet.Namespace
	var work sync.WaitGroup
	for _, list := range []struct {
		name, at string
		query    url.Values
	}{
		{"windowsinstances.json", group + "/namespaces/" + fleet.Namespace + "/windowsinstances", nil},
		{"windowsconfigs.json", group + "/windowsconfigs", nil},
		{"nodes.json", core + "/nodes", url.Values{"labelSelector": {"kubernetes.io/os=windows"}}},
		{"configmaps.json", namespaced + "/configmaps", nil},
		{"events.json", namespaced + "/events", nil},
		{"events-of-nodes.json", core + "/namespaces/default/events", url.Values{"fieldSelector": {"involvedObject.kind=Node"}}},
		{"deployments.json", "/apis/apps/v1/namespaces/" + fleet.Namespace + "/deployments", nil},
		{"certificatesigningrequests.json", "/apis/certificates.k8s.io/v1/certificatesigningrequests", nil},
		{"validatingadmissionpolicies.json", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", nil},
		{"version.json", "/version", nil},
	} {
		work.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			text, err := c.client.Get(ctx, list.at, list.query, maxObjects)
			if err == nil {
				text, err = c.masked(text)
			}
			c.archive.cluster(list.name, text, err)
		})
	}
	work.Go(func() { c.operatorPods(ctx, namespaced, timeout) })
	work.Wait()
}

// masked returns the JSON text without server-side fields and with secrets masked.
func (c *collector) masked(text []byte) ([]byte, error) {
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, fmt.Errorf("the response is not JSON, or is too long: %w", err)
	}
	if list, ok := tree.(map[string]any); ok {
		items, _ := list["items"].([]any)
		for _, item := range items {
			object, _ := item.(map[string]any)
			if metadata, ok := object["metadata"].(map[string]any); ok {
				delete(metadata, "managedFields")
			}
		}
	}
	text, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	out, err := c.masker.JSON(text)
	return append(out, '\n'), err
}

// operatorPods adds the operator's pods, their logs, and the logs of their previous containers.
func (c *collector) operatorPods(ctx context.Context, namespaced string, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	text, err := c.client.Get(ctx, namespaced+"/pods", nil, maxObjects)
	var pods corev1.PodList
	var object []byte
	if err == nil {
		err = json.Unmarshal(text, &pods)
	}
	if err == nil {
		object, err = c.masked(text)
	}
	c.archive.cluster("pods.json", object, err)
	if err != nil {
		c.archive.cluster("operator.log", nil, err)
		return
	}
	for _, p := range pods.Items {
		for _, container := range p.Status.ContainerStatuses {
			c.containerLog(ctx, namespaced, p.Name, container.Name, false)
			if container.RestartCount > 0 {
				c.containerLog(ctx, namespaced, p.Name, container.Name, true)
			}
		}
	}
}

func (c *collector) containerLog(ctx context.Context, namespaced, pod, container string, previous bool) {
	name := "logs/" + pod + "-" + container
	if previous {
		name += "-previous"
	}
	query := url.Values{"container": {container}, "tailLines": {strconv.Itoa(logLines)}, "previous": {strconv.FormatBool(previous)}}
	text, err := c.client.Get(ctx, namespaced+"/pods/"+url.PathEscape(pod)+"/log", query, maxLog)
	if err == nil {
		text = []byte(c.masker.Text(string(text)))
	}
	c.archive.cluster(name+".log", text, err)
}
