//go:build linux

package doctest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/internal/testing/documents"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// reader runs the blocks of a story in order: commands in a shell, and objects with kubectl apply. It only replaces the names
// in the shell's Replace.
type reader struct {
	root  string // folder of the repository
	dir   string // working folder, with links to the folders of the repository that documents use
	shell *testenv.Shell
	steps []step
	// before and after are undocumented actions before and after blocks, by the beginning of the block.
	before, after map[string]func(context.Context) error
	used          map[string]bool // keys of before, after and Replace that occurred
	log           func(format string, args ...any)
}

// step is a step of a story with its blocks.
type step struct {
	documents.Step
	blocks []documents.Block
}

func newReader(t *testing.T, story documents.Story) *reader {
	t.Helper()
	root, err := testenv.Repository(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d := &reader{root: root, dir: t.TempDir(), used: map[string]bool{}, log: t.Logf}
	for _, name := range []string{"deploy", "_install", "_chart"} {
		if err := os.Symlink(filepath.Join(root, name), filepath.Join(d.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range story.Steps {
		text, err := os.ReadFile(filepath.Join(root, s.Document))
		if err != nil {
			t.Fatal(err)
		}
		blocks, err := documents.Blocks(s.Document, string(text))
		if err != nil {
			t.Fatal(err)
		}
		next := step{Step: s}
		for _, b := range blocks {
			if s.Of(b) && b.IsCode() && b.NotRun == "" {
				next.blocks = append(next.blocks, b)
			}
		}
		d.steps = append(d.steps, next)
	}
	return d
}

// first runs the first block of the story, and removes it from the story.
func (d *reader) first(ctx context.Context) error {
	first := d.steps[0].blocks[0]
	d.steps[0].blocks = d.steps[0].blocks[1:]
	return d.block(ctx, first)
}

// run runs the story. It stops at the first block that fails.
func (d *reader) run(t *testing.T) {
	t.Helper()
	for _, s := range d.steps {
		passed := t.Run(strings.TrimSpace(s.Document+" "+s.Heading), func(t *testing.T) {
			for _, b := range s.blocks {
				if err := d.block(t.Context(), b); err != nil {
					t.Fatalf("%s: %v", b, err)
				}
			}
		})
		if !passed {
			t.FailNow()
		}
	}
	for _, hooks := range []map[string]func(context.Context) error{d.before, d.after} {
		for beginning := range hooks {
			if !d.used[beginning] {
				t.Errorf("found no block of the story that starts with %q", beginning)
			}
		}
	}
	for name, by := range d.shell.Replace {
		if t.Logf("replaced %q by %q", name, by); !d.used[name] {
			t.Errorf("found no block of the story with %q", name)
		}
	}
}

func (d *reader) block(ctx context.Context, b documents.Block) error {
	if err := d.hook(ctx, d.before, b); err != nil {
		return fmt.Errorf("action before the block: %w", err)
	}
	for name := range d.shell.Replace {
		d.used[name] = d.used[name] || strings.Contains(b.Text, name)
	}
	began := time.Now()
	run := d.commands
	if b.Language == "yaml" {
		run = d.object
	}
	if err := run(ctx, b); err != nil {
		return err
	}
	d.log("%s ran in %.1f s", b, time.Since(began).Seconds())
	if err := d.hook(ctx, d.after, b); err != nil {
		return fmt.Errorf("action after the block: %w", err)
	}
	return nil
}

// hook runs the actions for a block.
func (d *reader) hook(ctx context.Context, hooks map[string]func(context.Context) error, b documents.Block) error {
	for beginning, do := range hooks {
		if strings.HasPrefix(b.Text, beginning) {
			d.used[beginning] = true
			if err := do(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// commands runs a block of commands, and compares their output with the document. Only make runs in the folder of the
// repository, so that other commands do not create files there.
func (d *reader) commands(ctx context.Context, b documents.Block) error {
	script, output := b.Commands()
	if left := regexp.MustCompile(`<[a-z][a-z -]*>`).FindString(d.shell.Replaced(script)); left != "" {
		return fmt.Errorf("the test has no value for %s", left)
	}
	dir := d.dir
	if strings.HasPrefix(script, "make ") {
		dir = d.root
	}
	got, err := d.shell.Output(ctx, dir, script)
	if err != nil {
		return err
	}
	return documents.CompareOutput(d.shell.Replaced(output), got)
}

// object applies an object like a reader: a kustomization in its own folder, an object without kind as a patch of the
// WindowsConfig, and others as they are.
func (d *reader) object(ctx context.Context, b documents.Block) error {
	var o struct{ Kind string }
	if err := yaml.Unmarshal([]byte(b.Text), &o); err != nil {
		return err
	}
	file, command := "object.yaml", "kubectl apply -f object.yaml"
	switch o.Kind {
	case "Kustomization":
		file, command = "own/kustomization.yaml", "kubectl apply -k own"
	case "":
		command = "kubectl patch windowsconfig cluster --type merge --patch-file object.yaml"
	}
	path := filepath.Join(d.dir, file)
	err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(d.shell.Replaced(b.Text)), 0o600))
	if err != nil {
		return err
	}
	return d.shell.Run(ctx, d.dir, command)
}

// do returns an action that runs undocumented commands.
func (d *reader) do(script string) func(context.Context) error {
	return func(ctx context.Context) error { return d.shell.Run(ctx, d.dir, script) }
}

// addHost starts a simulated host that accepts the public key in the working folder. Its address replaces the documented one.
func (d *reader) addHost(env *testenv.Env, name, documented string) error {
	public, err := os.ReadFile(filepath.Join(d.dir, "windows-key.pub"))
	if err != nil {
		return err
	}
	authorized, _, _, _, err := ssh.ParseAuthorizedKey(public)
	if err != nil {
		return err
	}
	_, host, err := env.AddSimulated(sim.Options{Windows: sim.WindowsOptions{Hostname: name, NoQuirks: "documents show what commands print"}, AuthorizedKeys: []ssh.PublicKey{authorized}})
	if err == nil {
		d.shell.Replace[documented] = host.Address
	}
	return err
}

// labNetwork returns the network settings that replace Flannel in documents, because the lab's control plane has no pod network.
func labNetwork() string {
	return `provider: Custom, custom: {cniConfig: '{"cniVersion": "1.0.0", "name": "lab", "type": "win-bridge"}'}`
}
