//go:build linux

package pagetest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/chromedp/chromedp"
)

// errNoAxe means that axe-core cannot be installed.
var errNoAxe = errors.New("axe-core cannot be installed: this needs node, npm and a connection to its registry")

// axeSource returns the script with the accessibility rules. npm downloads it once, and verifies the hash in axe/package-lock.json.
func axeSource() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	pinned, err := os.ReadFile("axe/package-lock.json")
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(pinned)
	dir := filepath.Join(cache, "wmco", "npm", hex.EncodeToString(sum[:6]))
	script := filepath.Join(dir, "node_modules", "axe-core", "axe.min.js")
	if text, err := os.ReadFile(script); err == nil {
		return string(text), nil
	}
	if _, err := exec.LookPath("npm"); err != nil {
		return "", errNoAxe
	}
	if err := os.CopyFS(dir, os.DirFS("axe")); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	command := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	command.Dir = dir
	if out, err := command.CombinedOutput(); err != nil {
		if bytes.Contains(out, []byte("EINTEGRITY")) {
			return "", fmt.Errorf("axe-core does not have the hash in axe/package-lock.json: %s", out)
		}
		return "", errNoAxe
	}
	text, err := os.ReadFile(script)
	return string(text), err
}

// Finding is an accessibility rule that the page violates.
type Finding struct {
	Rule   string   `json:"rule"`
	Impact string   `json:"impact"`
	Help   string   `json:"help"`
	Where  []string `json:"where"`
}

// Accessibility returns the findings of axe-core for the current state of the page.
func (p *Page) Accessibility() ([]Finding, error) {
	script, err := axeSource()
	if err != nil {
		return nil, err
	}
	// The debugger evaluates the script, because the page's content security policy does not permit other scripts.
	const run = `window.findings = ""; axe.run(document, {resultTypes: ["violations"]}).then((r) => { window.findings = JSON.stringify(r.violations.map((v) => (
		{rule: v.id, impact: v.impact, help: v.help, where: v.nodes.slice(0, 5).map((n) => n.html)}))); }); true`
	if _, err := chromedp.Run(p.Context, chromedp.Evaluate[bool](script+"; true")); err != nil {
		return nil, err
	}
	if _, err := chromedp.Run(p.Context, chromedp.Evaluate[bool](run)); err != nil {
		return nil, err
	}
	if err := p.Until(`window.findings !== ""`, time.Minute); err != nil {
		return nil, err
	}
	text, err := chromedp.Run(p.Context, chromedp.Evaluate[string]("window.findings"))
	if err != nil {
		return nil, err
	}
	var findings []Finding
	return findings, json.Unmarshal([]byte(text), &findings)
}
