// Command discovery discovers targets in Kubernetes for a Prometheus that was built without Kubernetes service discovery, such
// as Debian's. It runs Prometheus' own discovery for each job of a configuration, and writes the targets of each job to a file,
// which is named like the job with _ in place of /.
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
	config := flag.String("config", "", "the `file` with the configuration of Prometheus")
	kubeconfig := flag.String("kubeconfig", "", "the kubeconfig `file`")
	out := flag.String("out", "", "the `folder` for the target files")
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
			go func() {
				failed <- writeTargets(groups, filepath.Join(out, strings.ReplaceAll(j.Name, "/", "_")+".json"))
			}()
		}
	}
	if searches == 0 {
		return fmt.Errorf("%s has no job with kubernetes_sd_configs", config)
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

// target is an entry of a target file.
type target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// writeTargets writes the target file after each change.
func writeTargets(changes <-chan []*targetgroup.Group, file string) error {
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
