//go:build linux

package testenv

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/internal/testing/documents"
)

// Shell runs commands of documents as a cluster administrator. It has kubectl of the control plane's version, which is oc as well.
type Shell struct {
	env   *Env
	tools string
	// Replace maps names in documents, such as that of a registry, to their replacements.
	Replace map[string]string
	// Environment has additional variables of commands.
	Environment []string
}

// NewShell returns a shell. The folder tools can contain additional programs.
func (env *Env) NewShell(tools string) (*Shell, error) {
	return &Shell{env: env, tools: tools}, env.Lab.ControlPlane.LinkKubectl(filepath.Join(tools, "kubectl"))
}

// Prefer prepends a folder with programs to the PATH of commands.
func (s *Shell) Prefer(tools string) { s.tools = tools + ":" + s.tools }

// Run runs commands in a folder. The error contains their output.
func (s *Shell) Run(ctx context.Context, dir, script string) error {
	_, err := s.Output(ctx, dir, script)
	return err
}

// Output is like Run, and returns the output of the commands.
func (s *Shell) Output(ctx context.Context, dir, script string) (printed string, err error) {
	script = s.Replaced(script)
	command := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", "oc() { kubectl \"$@\"; }\n"+script)
	command.Dir = dir
	command.Env = append(os.Environ(), "KUBECONFIG="+s.env.Kubeconfig, "PATH="+s.tools+":"+os.Getenv("PATH"), "MAKEFLAGS=")
	command.Env = append(command.Env, s.Environment...)
	out, err := command.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("running\n%s: %w\n%s", script, err, out)
	}
	return string(out), nil
}

// Replaced returns a text with all names replaced. If one name is a prefix of another, the longer one takes precedence.
func (s *Shell) Replaced(text string) string {
	var pairs []string
	for _, name := range slices.SortedFunc(maps.Keys(s.Replace), func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) }) {
		pairs = append(pairs, name, s.Replace[name])
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// ConsoleBlocks returns the blocks of commands of a document below a heading, as in "## Install", without prompts.
func ConsoleBlocks(text, heading string) (scripts []string) {
	blocks, err := documents.Blocks("", text)
	if err != nil {
		return nil // the tests of the root report the error
	}
	for _, b := range blocks {
		if b.Heading == heading && b.Language == "console" {
			script, _ := b.Commands()
			scripts = append(scripts, script)
		}
	}
	return scripts
}
