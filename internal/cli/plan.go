package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/cli/terminal"
	"github.com/windows-machine-config/wmco/internal/observe/advice"
	"github.com/windows-machine-config/wmco/internal/operator/kubeversions"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
)

type planOptions struct {
	file         string
	remove       []string
	upgrade      bool
	image, chart string
	insecure     bool
	disruption   string
	each         time.Duration
}

type planned struct {
	// Version is the node version of the given operator image.
	Version string `json:"version,omitempty"`
	// Steps are the actions in the order of their start.
	Steps []plannedStep `json:"steps"`
	// Waiting lists the hosts that wait for something that needs action.
	Waiting []plannedStep `json:"waiting,omitempty"`
	// Seconds is the total duration, with EachSeconds for each action that takes a node out of service. Measured means that EachSeconds is the
	// pace of the rollout so far; otherwise it is assumed.
	Seconds     float64 `json:"seconds"`
	EachSeconds float64 `json:"eachSeconds"`
	Measured    bool    `json:"measured"`
	// Settings lists the changed fields of WindowsConfig other than spec.rollout, with the effect on nodes.
	Settings []string `json:"settings,omitempty"`
	// Notes lists what the plan does not know.
	Notes []string `json:"notes,omitempty"`
}

type plannedStep struct {
	Host       string `json:"host"`
	Action     string `json:"action"`
	Disruption string `json:"disruption"`
	// InSeconds is when it begins.
	InSeconds float64 `json:"inSeconds"`
	WaitsFor  string  `json:"waitsFor,omitempty"`
	Message   string  `json:"message,omitempty"`
	Remedy    string  `json:"remedy,omitempty"`
}

func plan(s *session.Session) *cobra.Command {
	var o output
	var p planOptions
	c := &cobra.Command{
		Use:   "plan",
		Short: "Show what the operator will do to each host, in which order, and how disruptive it is",
		Long: "Show which actions are due, in which order they start within the limits of spec.rollout of WindowsConfig, and what waits. The command\n" +
			"makes the same decisions as the operator, from what it can read, and changes nothing. It assumes that each action succeeds.\n\n" +
			"Use -f to plan with a changed WindowsConfig, --remove to plan the removal of hosts, and --upgrade to plan the upgrade to another\n" +
			"version of the operator. Name that version's image with --image or --chart: it lists the programs that change on each node, and is\n" +
			"read with the credentials of docker login or podman login. Without an image, the disruption is unknown; set the one to assume with\n" +
			"--disruption.",
		Example: "  kubectl windows plan\n  kubectl windows plan -f windowsconfig.yaml\n  kubectl windows plan --remove win-1\n  kubectl windows plan --upgrade\n" +
			"  kubectl windows plan --upgrade --image ghcr.io/windows-machine-config/wmco:v1.3.0",
		Args: rejectArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			result, err := p.plan(c.Context(), s)
			if err != nil {
				return err
			}
			return o.show(s, result, func(p *terminal.Printer) { printPlanned(p, result) })
		},
	}
	o.add(c, formatJSON, formatYAML)
	c.Flags().StringVarP(&p.file, "filename", "f", "", "File with a changed WindowsConfig.")
	c.Flags().StringArrayVar(&p.remove, "remove", nil, "Plan the removal of this host; can be repeated.")
	c.Flags().BoolVar(&p.upgrade, "upgrade", false, "Plan the upgrade of all nodes to another version of the operator.")
	c.Flags().StringVar(&p.image, "image", "", "With --upgrade: image of the other version.")
	c.Flags().StringVar(&p.chart, "chart", "", "With --upgrade: file of the other version's Helm chart, which names its image.")
	c.Flags().BoolVar(&p.insecure, "insecure-registries", false, insecureUsage)
	c.Flags().StringVar(&p.disruption, "disruption", string(v1alpha1.DisruptionDrain), "With --upgrade: disruption to assume. One of: None, Restart, Drain, Reboot.")
	c.Flags().DurationVar(&p.each, "each", 0, "Duration of an action that takes a node out of service. Defaults to the pace of the rollout so far, or 10m.")
	return c
}

// assumedPace is the assumed duration of an action if it was not measured.
const assumedPace = 10 * time.Minute

func (p planOptions) plan(ctx context.Context, s *session.Session) (planned, error) {
	if err := p.checkFlags(); err != nil {
		return planned{}, err
	}
	a := &action{s: s}
	in, err := a.read(ctx)
	if err != nil {
		return planned{}, err
	}
	for _, u := range in.Unread {
		if u.What == "nodes" || u.What == "windowsconfigs" {
			return planned{}, session.Failf(session.CodeForbidden, "%s", u.Why)
		}
	}
	result := planned{Steps: []plannedStep{}}
	config := &v1alpha1.WindowsConfig{}
	if in.Config != nil {
		config = in.Config
	}
	spec := config.Spec
	if p.file != "" {
		if spec, result.Notes, err = a.changedConfig(ctx, p.file, config); err != nil {
			return planned{}, err
		}
		result.Settings = changedSettings(config.Spec, spec)
	}
	var next *kubeversions.Release
	if p.image != "" {
		read, err := nextRelease(ctx, s, p.image, p.insecure)
		if err != nil {
			return planned{}, err
		}
		next, result.Version, result.Notes = &read, read.Version, append(result.Notes, notInImage)
	}
	f, err := a.planFleet(ctx, p, in, spec, next)
	if err != nil {
		return planned{}, err
	}
	result.Notes = append(result.Notes, f.Policy.Faults...)
	each, measured := paceOf(in, f)
	if p.each > 0 {
		each, measured = p.each, false
	}
	steps, waiting, end := rollout.Forecast(f, each)
	result.Seconds, result.EachSeconds, result.Measured = end.Sub(f.Now).Seconds(), each.Seconds(), measured
	result.fill(f.Now, steps, waiting)
	return result, nil
}

func (r *planned) fill(now time.Time, steps []rollout.Step, waiting map[string]rollout.Next) {
	for _, step := range steps {
		r.Steps = append(r.Steps, plannedStep{
			Host: step.Host, Action: string(step.Action), Disruption: string(step.Disruption), InSeconds: step.At.Sub(now).Seconds(), Message: printable(step.Message),
		})
	}
	table := advice.All()
	for _, host := range slices.Sorted(maps.Keys(waiting)) {
		next := waiting[host]
		r.Waiting = append(r.Waiting, plannedStep{
			Host: host, Action: string(next.Action), Disruption: string(next.Disruption), WaitsFor: next.WaitsFor, Message: printable(next.Message),
			Remedy: strings.ReplaceAll(table.For(next.WaitsFor).Remedy, "<host>", host),
		})
	}
}

// changedConfig reads a WindowsConfig from a file. The API server adds defaults and validates it, if the user may change it.
func (a *action) changedConfig(ctx context.Context, file string, previous *v1alpha1.WindowsConfig) (spec v1alpha1.WindowsConfigSpec, notes []string, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return spec, nil, session.Failf(session.CodeUsage, "reading the file: %w", err)
	}
	config := &v1alpha1.WindowsConfig{}
	if err := yaml.UnmarshalStrict(text, config); err != nil {
		return spec, nil, session.Failf(session.CodeUsage, "file %s is not a WindowsConfig: %w", file, err)
	}
	if config.Kind != "WindowsConfig" || config.Name != api.WindowsConfigName {
		return spec, nil, session.Failf(session.CodeUsage, "file %s has %s %q, want WindowsConfig %q", file, cmp.Or(config.Kind, "no kind"), config.Name, api.WindowsConfigName)
	}
	validated := config.DeepCopy()
	validated.ResourceVersion = previous.ResourceVersion
	if previous.ResourceVersion == "" {
		err = a.Create(ctx, validated, client.DryRunAll)
	} else {
		err = a.Update(ctx, validated, client.DryRunAll)
	}
	switch {
	case apierrors.IsForbidden(err):
		return config.Spec, []string{"you are not allowed to change WindowsConfig: the API server did not validate the file and did not add defaults"}, nil
	case err != nil:
		return spec, nil, session.Explain(err, "checking file "+file)
	}
	return validated.Spec, nil, nil
}

// settingEffects describes how a change of each field of WindowsConfig affects nodes (docs/settings.md, docs/network.md).
func settingEffects() map[string]string {
	return map[string]string{
		"kubelet":        "kubelets restart; pods keep running",
		"taint":          "the value of the taint changes on all nodes; pods that do not tolerate it are not scheduled",
		"trust":          "hosts whose key is not known in advance can no longer join, or can join again",
		"hosts":          "applies to hosts that join; nodes do not change",
		"clusterAPI":     "hosts of other Machines become nodes; nodes that exist stay",
		"network":        "applies to hosts that join; see docs/network.md before you change it for existing nodes",
		"cloudProvider":  "kubelets restart; pods keep running",
		"proxy":          "services restart; pods keep running",
		"registries":     "nodes apply it within seconds; nothing restarts",
		"runtime":        "nodes apply it without a drain",
		"images":         "nodes pull the images within minutes; hosts that join get no pods until they have tried",
		"csiProxy":       "csi-proxy starts or stops on nodes; other services and pods keep running",
		"runtimeClasses": "RuntimeClasses are created, changed or deleted; hyperV enables a feature on nodes, which needs a restart",
		"pods":           "applies to pods that are created; running pods do not change",
		"windowsUpdates": "with policy Install, nodes are drained and restarted for updates; the plan has those that nodes offer now",
		"logs":           "services that have it on their command line restart; pods keep running",
		"cluster":        "applies to hosts that join; nodes keep the address of the API server with which they joined",
	}
}

func changedSettings(previous, current v1alpha1.WindowsConfigSpec) (changed []string) {
	fields := func(spec v1alpha1.WindowsConfigSpec) (all map[string]any) {
		text, _ := json.Marshal(spec)
		_ = json.Unmarshal(text, &all)
		return all
	}
	old, now := fields(previous), fields(current)
	effects := settingEffects()
	for _, name := range slices.Sorted(maps.Keys(effects)) {
		if !equality.Semantic.DeepEqual(old[name], now[name]) {
			changed = append(changed, fmt.Sprintf("spec.%s: %s", name, effects[name]))
		}
	}
	return changed
}
