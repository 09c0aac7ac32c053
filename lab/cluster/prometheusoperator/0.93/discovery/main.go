// Command discovery finds targets in Kubernetes for a Prometheus that was built without that, as Debian's is. It runs Prometheus' own discovery
// for each job of a configuration, and writes what it finds as files of targets: each is named like its job, with _ in place of /.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/kubernetes"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"go.yaml.in/yaml/v2"
)

func main() {
	config := flag.String("config", "", "the `file` with Prometheus' configuration")
	kubeconfig := flag.String("kubeconfig", "", "the `file` that says how to connect to the cluster")
	out := flag.String("out", "", "the `folder` for the files of targets")
	flag.Parse()
	if err := run(context.Background(), *config, *kubeconfig, *out); err != nil {
		fmt.Fprintln(os.Stderr, "discovery:", err)
		os.Exit(1)
	}
}

// job is a job of the configuration.
type job struct {
	Name     string                 `yaml:"job_name"`
	Searches []*kubernetes.SDConfig `yaml:"kubernetes_sd_configs"`
}

func run(ctx context.Context, config, kubeconfig, out string) error {
	text, err := os.ReadFile(config)
	if err != nil {
		return err
	}
	var all struct {
		Jobs []job `yaml:"scrape_configs"`
	}
	if err := yaml.Unmarshal(text, &all); err != nil {
		return err
	}
	failed := make(chan error)
	searches := 0
	for _, j := range all.Jobs {
		for _, s := range j.Searches {
			s.KubeConfig = kubeconfig
			groups, err := start(ctx, s)
			if err != nil {
				return fmt.Errorf("job %s: %w", j.Name, err)
			}
			searches++
			go func() { failed <- follow(groups, filepath.Join(out, strings.ReplaceAll(j.Name, "/", "_")+".json")) }()
		}
	}
	if searches == 0 {
		return fmt.Errorf("%s has no job that finds its targets in Kubernetes", config)
	}
	return <-failed
}

func start(ctx context.Context, s *kubernetes.SDConfig) (<-chan []*targetgroup.Group, error) {
	registry := prometheus.NewRegistry()
	metrics := s.NewDiscovererMetrics(registry, discovery.NewRefreshMetrics(registry))
	if err := metrics.Register(); err != nil {
		return nil, err
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	discoverer, err := s.NewDiscoverer(discovery.DiscovererOptions{Logger: logger, Metrics: metrics})
	if err != nil {
		return nil, err
	}
	groups := make(chan []*targetgroup.Group)
	go discoverer.Run(ctx, groups)
	return groups, nil
}

// target is an entry of a file of targets.
type target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// follow writes the file again with each change.
func follow(changes <-chan []*targetgroup.Group, file string) error {
	groups := map[string]*targetgroup.Group{}
	for changed := range changes {
		for _, g := range changed {
			groups[g.Source] = g
		}
		targets := []target{}
		for _, g := range groups {
			for _, t := range g.Targets {
				labels := map[string]string{}
				for name, value := range g.Labels.Merge(t) {
					labels[string(name)] = string(value)
				}
				delete(labels, model.AddressLabel)
				targets = append(targets, target{[]string{string(t[model.AddressLabel])}, labels})
			}
		}
		text, err := json.Marshal(targets)
		if err != nil {
			return err
		}
		if err := os.WriteFile(file+".new", text, 0o600); err != nil {
			return err
		}
		if err := os.Rename(file+".new", file); err != nil {
			return err
		}
	}
	return nil
}
