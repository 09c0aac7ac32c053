//go:build linux

package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/lab"
)

const pluginPackage = "./cmd/kubectl-windows"

// pluginTimeout is how long a command of the plugin may take, at speed factor 1.
const pluginTimeout = 5 * time.Minute

// Plugin is the program kubectl-windows, with the kubeconfig of a user.
type Plugin struct {
	// Program is the path of the program, Kubeconfig that of the user's kubeconfig.
	Program, Kubeconfig string
}

// PluginResult is the output of a run of the plugin, and its exit code.
type PluginResult struct {
	Out, Err string
	Code     int
}

// All returns the whole output, for searches.
func (r PluginResult) All() string { return r.Out + r.Err }

// Missing describes the first part that the output lacks, regardless of line breaks, or "" if it has all.
func (r PluginResult) Missing(parts ...string) (missing string) {
	output := strings.Join(strings.Fields(r.All()), " ")
	for _, part := range parts {
		if !strings.Contains(output, part) {
			return fmt.Sprintf("%q is missing in the output (exit code %d):\n%s", part, r.Code, r.All())
		}
	}
	return ""
}

// Plugin builds kubectl-windows, which takes seconds, and gives it the kubeconfig of a cluster administrator.
func (env *Env) Plugin(ctx context.Context) (Plugin, error) {
	root, err := Repository(ctx)
	if err != nil {
		return Plugin{}, err
	}
	p := Plugin{Program: filepath.Join(env.folder.Path, "kubectl-windows"), Kubeconfig: env.Kubeconfig}
	return p, lab.BuildProgram(ctx, root, pluginPackage, p.Program, lab.BuildOptions{}, nil)
}

// PluginFor returns the plugin with the kubeconfig of an existing service account.
func (env *Env) PluginFor(ctx context.Context, namespace, serviceAccount string) (Plugin, error) {
	p, err := env.Plugin(ctx)
	if err != nil {
		return p, err
	}
	p.Kubeconfig = filepath.Join(env.folder.Path, serviceAccount+".kubeconfig")
	return p, env.Lab.ControlPlane.KubeconfigFor(ctx, namespace, serviceAccount, p.Kubeconfig)
}

// Run runs a command line, such as "describe", "win-1". The error is nil whatever the exit code.
func (p Plugin) Run(ctx context.Context, args ...string) (PluginResult, error) {
	ctx, cancel := context.WithTimeout(ctx, lab.Timeout(pluginTimeout))
	defer cancel()
	var out, errs bytes.Buffer
	command := exec.CommandContext(ctx, p.Program, args...)
	command.Env = append(command.Environ(), "KUBECONFIG="+p.Kubeconfig)
	command.Stdout, command.Stderr = &out, &errs
	err := command.Run()
	if exit := (&exec.ExitError{}); errors.As(err, &exit) && ctx.Err() == nil {
		err = nil
	}
	if err != nil {
		return PluginResult{}, fmt.Errorf("running kubectl windows %s: %w", strings.Join(args, " "), err)
	}
	return PluginResult{out.String(), errs.String(), command.ProcessState.ExitCode()}, nil
}
