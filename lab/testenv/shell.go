//go:build linux

package testenv

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Shell runs commands of documents as a cluster administrator. It has kubectl of the control plane's version, which is oc as well.
type Shell struct {
	env   *Env
	tools string
	// Replace has names in documents, such as that of a registry, and what takes their place.
	Replace map[string]string
	// Environment are further variables of commands.
	Environment []string
}

// NewShell makes a shell. Further programs can be in the folder.
func (env *Env) NewShell(tools string) (*Shell, error) {
	return &Shell{env: env, tools: tools}, env.Lab.ControlPlane.LinkKubectl(filepath.Join(tools, "kubectl"))
}

// Run runs commands in a folder; the error has what they printed.
func (s *Shell) Run(ctx context.Context, dir, script string) error {
	for name, by := range s.Replace {
		script = strings.ReplaceAll(script, name, by)
	}
	command := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", "oc() { kubectl \"$@\"; }\n"+script)
	command.Dir = dir
	command.Env = append(os.Environ(), "KUBECONFIG="+s.env.Kubeconfig, "PATH="+s.tools+":"+os.Getenv("PATH"), "MAKEFLAGS=")
	command.Env = append(command.Env, s.Environment...)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("running\n%s: %w\n%s", script, err, out)
	}
	return nil
}

// InstallBlocks are README's commands of the installation: with kubectl, what takes the place of the last of them with Helm, and those for the
// SSH key.
func InstallBlocks(root string) (kubectl, helm, key string, err error) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		return "", "", "", err
	}
	blocks := ConsoleBlocks(string(text), "## Install")
	if len(blocks) != 3 {
		return "", "", "", fmt.Errorf("README's installation has %d blocks of commands, want those for kubectl, Helm and the SSH key", len(blocks))
	}
	return blocks[0], blocks[1], blocks[2], nil
}

// ConsoleBlocks returns the blocks of commands of a document below a heading, as in "## Install", without prompts.
func ConsoleBlocks(text, heading string) (blocks []string) {
	_, section, _ := strings.Cut(text, "\n"+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, part := range strings.Split(section, "```console\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		blocks = append(blocks, strings.ReplaceAll("\n"+block, "\n$ ", "\n"))
	}
	return blocks
}
