//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// cluster is the cluster on which the cases run.
type cluster struct {
	kubeconfig, kubectl string
	clients             kubernetes.Interface
	close               func() error
}

const (
	// labHosts is the number of Windows hosts of the lab: some cases need two nodes.
	labHosts = 2
	// joinTimeout limits the time until they have joined.
	joinTimeout = 5 * time.Minute
)

// openCluster opens the lab or connects to the user's cluster, and directs pods to its Windows nodes until it is closed.
func (t *tests) openCluster(ctx context.Context) (c *cluster, err error) {
	if t.kubeconfig == "" {
		c, err = openLab(ctx, t.logs)
	} else {
		c, err = connect(t.kubeconfig)
	}
	if err != nil {
		return nil, err
	}
	if err := placePods(ctx, c.clients); err != nil {
		return nil, errors.Join(err, c.close())
	}
	closeCluster := c.close
	c.close = func() error { return errors.Join(restoreTaints(context.Background(), c.clients), closeCluster()) }
	return c, nil
}

// connect connects to a cluster of the user.
func connect(kubeconfig string) (*cluster, error) {
	path, err := filepath.Abs(kubeconfig)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("reading KUBECONFIG=%s: %w", kubeconfig, err)
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		return nil, fmt.Errorf("searching for kubectl, which cases of SIG CLI need: %w", err)
	}
	logf("The cases run on the cluster at %s. During the run, its Windows nodes have no taint os=Windows, and new pods do not start on its Linux nodes", config.Host)
	return &cluster{kubeconfig: path, kubectl: kubectl, clients: clients, close: func() error { return nil }}, nil
}

// openLab opens a lab with a Linux node, and two Windows nodes that the operator has joined.
func openLab(ctx context.Context, dir string) (*cluster, error) {
	if err := errors.Join(lab.CanRunWindows(), lab.CanRunRegistries(), lab.CanRunLinuxNodes(), lab.CanBalance(), lab.PreferMemory()); err != nil {
		return nil, err
	}
	began := time.Now()
	env, err := testenv.Open(ctx, testenv.Options{WineHosts: labHosts, Network: testenv.NetworkHybridOverlay, Pods: true, Log: os.Stderr})
	if err != nil {
		return nil, err
	}
	c := &cluster{kubeconfig: env.Kubeconfig, kubectl: filepath.Join(dir, "kubectl"), clients: env.Clients}
	c.close = func() error {
		err := os.WriteFile(filepath.Join(dir, "lab.log"), []byte(env.Diagnosis()), 0o600)
		env.Close()
		return err
	}
	if err := prepareLab(ctx, env, c.kubectl); err != nil {
		return nil, errors.Join(err, errors.New(env.Diagnosis()), c.close())
	}
	logf("The lab is ready: a Linux node, %d Windows nodes and CoreDNS (%.0f s)", labHosts, time.Since(began).Seconds())
	return c, nil
}

func prepareLab(ctx context.Context, env *testenv.Env, kubectl string) error {
	if err := os.Remove(kubectl); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := env.Lab.ControlPlane.LinkKubectl(kubectl); err != nil {
		return fmt.Errorf("linking kubectl: %w", err)
	}
	if err := env.Lab.AddTestImages(ctx, env.PodImages()); err != nil {
		return fmt.Errorf("adding the images of the tests: %w", err)
	}
	if err := env.Configure(ctx); err != nil {
		return err
	}
	if err := env.Announce(ctx, env.Hosts()...); err != nil {
		return err
	}
	if err := waitForNodes(ctx, env.Clients); err != nil {
		return err
	}
	return env.StartDNS(ctx)
}

// waitForNodes waits until all Windows nodes are Ready.
func waitForNodes(ctx context.Context, clients kubernetes.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, lab.Timeout(joinTimeout))
	defer cancel()
	return lab.Until(ctx, time.Second, "Windows nodes", func(ctx context.Context) error {
		nodes, err := clients.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: corev1.LabelOSStable + "=windows"})
		if err != nil {
			return err
		}
		ready := 0
		for i := range nodes.Items {
			if nodestate.IsReady(&nodes.Items[i]) {
				ready++
			}
		}
		if ready < labHosts {
			return fmt.Errorf("%d of %d nodes are Ready", ready, labHosts)
		}
		return nil
	}, nil)
}

// version returns the version of the API server.
func (c *cluster) version() (string, error) {
	v, err := c.clients.Discovery().ServerVersion()
	if err != nil {
		return "", fmt.Errorf("reading the version of the API server: %w", err)
	}
	return v.GitVersion, nil
}
