//go:build linux

// Package clusterapi runs the controllers of Cluster API against a control plane of the lab. The cluster is its own management
// cluster. A small infrastructure provider (Provider), which implements Cluster API's provider contract, creates its machines.
package clusterapi

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/cluster/manifest"
)

const (
	module  = "sigs.k8s.io/cluster-api"
	program = module + "/core"
	// loopback is the address at which the controllers serve their webhooks and health checks.
	loopback = "127.0.0.1"
	// startTimeout limits the time until the controllers are ready. They take 10 s on two busy cores.
	startTimeout = 2 * time.Minute
)

// Programs builds the controllers into a folder, and starts them.
type Programs struct {
	// Root is the folder of the repository, Dir the one for the program, its certificate and its log.
	Root, Dir string
	// Progress gets a line for each long operation.
	Progress io.Writer
}

// Build builds the controllers, which takes minutes the first time.
func (p Programs) Build(ctx context.Context) error {
	return lab.BuildProgram(ctx, p.pins(), program, p.path(), lab.BuildOptions{}, p.Progress)
}

func (p Programs) pins() string {
	return filepath.Join(p.Root, "lab", "cluster", "clusterapi", "programs")
}
func (p Programs) path() string { return filepath.Join(p.Dir, "cluster-api") }

// Start installs the CustomResourceDefinitions and webhooks of Cluster API and of the provider, starts the controllers with the
// permissions of a kubeconfig, and returns when they are ready.
func (p Programs) Start(ctx context.Context, l *lab.Lab, kubeconfig string) (*lab.Program, error) {
	if err := p.Build(ctx); err != nil {
		return nil, err
	}
	hooks, err := p.newWebhooks(l)
	if err != nil {
		return nil, err
	}
	health, err := lab.FreePort(loopback)
	if err != nil {
		return nil, err
	}
	config := l.ControlPlane.RESTConfig()
	kinds, err := hooks.kinds(ctx, p.pins())
	if err != nil {
		return nil, err
	}
	if err := manifest.ApplyObjects(ctx, config, append(kinds, providerKinds()...)); err != nil {
		return nil, fmt.Errorf("installing the CustomResourceDefinitions of Cluster API: %w", err)
	}
	running, err := l.ControlPlane.Start(p.path()+".log", "/usr/bin/env", "KUBECONFIG="+kubeconfig, p.path(),
		"--webhook-port="+strconv.Itoa(hooks.port), "--webhook-cert-dir="+p.Dir, "--webhook-cert-name="+certificateFile, "--webhook-key-name="+keyFile,
		"--health-addr="+loopback+":"+strconv.Itoa(health), "--diagnostics-address=0")
	if err != nil {
		return nil, fmt.Errorf("starting the controllers of Cluster API: %w", err)
	}
	if err := running.WaitHealthy(ctx, "http://"+loopback+":"+strconv.Itoa(health)+"/readyz", startTimeout); err != nil {
		return nil, err
	}
	admission, err := hooks.configurations(ctx, p.pins())
	if err != nil {
		return nil, err
	}
	return running, manifest.ApplyObjects(ctx, config, admission)
}

// The files of the webhooks' certificate.
const certificateFile, keyFile = "cluster-api.crt", "cluster-api.key"

// webhooks describe the endpoint at which the controllers serve admission and conversion.
type webhooks struct {
	port int
	ca   string // as base64
}

func (p Programs) newWebhooks(l *lab.Lab) (w webhooks, err error) {
	if w.port, err = lab.FreePort(loopback); err != nil {
		return w, err
	}
	pair, err := l.ServingCertificate(webhookName)
	if err != nil {
		return w, fmt.Errorf("creating a certificate for the webhooks of Cluster API: %w", err)
	}
	w.ca = base64.StdEncoding.EncodeToString(l.RegistryCA())
	for file, content := range map[string][]byte{certificateFile: pair.Cert, keyFile: pair.Key} {
		if err := os.WriteFile(filepath.Join(p.Dir, file), content, 0o600); err != nil {
			return w, err
		}
	}
	return w, nil
}

// webhookName resolves to loopback. The serving certificate is issued for this name.
const webhookName = "localhost"

// client returns the clientConfig for a path of the webhooks. It replaces the reference to Service capi-webhook-service.
func (w webhooks) client(path string) map[string]any {
	return map[string]any{"url": "https://" + webhookName + ":" + strconv.Itoa(w.port) + path, "caBundle": w.ca}
}

// kinds returns Cluster API's CustomResourceDefinitions, with conversion by the webhooks.
func (w webhooks) kinds(ctx context.Context, pins string) ([]*unstructured.Unstructured, error) {
	names := []string{
		"cluster.x-k8s.io_clusterclasses", "cluster.x-k8s.io_clusters", "cluster.x-k8s.io_machinedeployments", "cluster.x-k8s.io_machinedrainrules",
		"cluster.x-k8s.io_machinehealthchecks", "cluster.x-k8s.io_machinepools", "cluster.x-k8s.io_machines", "cluster.x-k8s.io_machinesets",
		"addons.cluster.x-k8s.io_clusterresourcesetbindings", "addons.cluster.x-k8s.io_clusterresourcesets", "ipam.cluster.x-k8s.io_ipaddressclaims",
		"ipam.cluster.x-k8s.io_ipaddresses", "runtime.cluster.x-k8s.io_extensionconfigs",
	}
	var files []string
	for _, name := range names {
		files = append(files, "core/config/crd/bases/"+name+".yaml")
	}
	kinds, err := manifest.ReadModule(ctx, pins, module, files...)
	if err != nil {
		return nil, err
	}
	for _, k := range kinds {
		conversion := map[string]any{"strategy": "Webhook", "webhook": map[string]any{
			"conversionReviewVersions": []any{"v1"}, "clientConfig": w.client("/convert"),
		}}
		if err := unstructured.SetNestedMap(k.Object, conversion, "spec", "conversion"); err != nil {
			return nil, err
		}
	}
	return kinds, nil
}

// configurations returns Cluster API's webhook configurations.
func (w webhooks) configurations(ctx context.Context, pins string) ([]*unstructured.Unstructured, error) {
	all, err := manifest.ReadModule(ctx, pins, module, "core/config/webhook/manifests.yaml")
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		c.SetName("capi-" + c.GetName())
		hooks, _, err := unstructured.NestedSlice(c.Object, "webhooks")
		if err != nil {
			return nil, err
		}
		for _, h := range hooks {
			hook, _ := h.(map[string]any)
			path, _, err := unstructured.NestedString(hook, "clientConfig", "service", "path")
			if err != nil {
				return nil, err
			}
			hook["clientConfig"] = w.client(path)
		}
		if err := unstructured.SetNestedSlice(c.Object, hooks, "webhooks"); err != nil {
			return nil, err
		}
	}
	return all, nil
}
