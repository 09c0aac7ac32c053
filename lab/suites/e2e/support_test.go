//go:build linux

package e2e

import (
	"archive/zip"
	"context"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/overlay"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// TestSupport reads logs of a Windows host through the API server and its real kubelet, and collects its state.
func TestSupport(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunRegistries())
	s := supportTest{newPluginTest(newHarness(t, testenv.Options{WineHosts: 1, Network: testenv.NetworkHybridOverlay}))}
	s.joinAll()
	t.Run("the kubelet serves the files of must-gather", func(t *testing.T) { s.withT(t).mustGather() })
	t.Run("kubectl windows logs prints logs", func(t *testing.T) { s.withT(t).logs() })
	t.Run("only the end of a log of two gigabytes is read", func(t *testing.T) { s.withT(t).largeLog() })
	t.Run("kubectl windows collect writes an archive without keys", func(t *testing.T) { s.withT(t).collect() })
	t.Run("a stopped network service is reported", func(t *testing.T) { stoppedNetworkService(s.withT(t).pluginTest) })
	t.Run("an unreachable host is reported", func(t *testing.T) { s.withT(t).unreachable() })
}

// supportTest is a harness with kubectl windows.
type supportTest struct{ pluginTest }

func (s supportTest) withT(t *testing.T) supportTest {
	s.pluginTest = s.pluginTest.withT(t)
	return s
}

// mustGather reads the paths that OpenShift's must-gather reads, as oc adm node-logs does, except those of csi-proxy, which does not run here.
func (s supportTest) mustGather() {
	for _, path := range []string{
		"kube-proxy/kube-proxy.log", "hybrid-overlay/hybrid-overlay.log", "kubelet/kubelet.log", "containerd/containerd.log",
		"wicd/windows-instance-config-daemon.exe.INFO", "wicd/windows-instance-config-daemon.exe.ERROR", "wicd/windows-instance-config-daemon.exe.WARNING",
	} {
		s.eventually(path+" is served", func(ctx context.Context) string {
			text, err := s.Clients.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/win-1/proxy/logs/" + path).DoRaw(ctx)
			if err != nil {
				return err.Error()
			}
			if len(text) == 0 && !strings.HasSuffix(path, ".ERROR") && !strings.HasSuffix(path, ".WARNING") {
				return "the file is empty"
			}
			return ""
		})
	}
}

func (s supportTest) logs() {
	s.run(0, []string{"logs", "win-1", "kubelet", "--tail", "-1"}, "Successfully registered node")
	s.run(0, []string{"logs", "win-1", "wicd", "containerd", "--since", "1h"}, "[win-1 wicd]", "Session started", "[win-1 containerd]")
	s.run(0, []string{"logs", "win-1"}, "[win-1 wicd]", "[win-1 kube-proxy]")
	s.run(0, []string{"logs", "win-1", "--list"}, "kubelet/kubelet.log", "hybrid-overlay/hybrid-overlay.log")
	s.run(7, []string{"logs", "win-1", "csi-proxy"}, "file not found")
	s.run(2, []string{"logs", "win-1", "../k/kubelet.conf"}, "is not the path of a log")
	s.t.Run("with --follow it waits for more", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		host := s.Lab.Hosts()[0]
		time.AfterFunc(2*time.Second, func() { _ = host.WriteFile(`C:\var\log\test\test.log`, []byte("the first\nthe second\n")) })
		must(t, host.WriteFile(`C:\var\log\test\test.log`, []byte("the first\n")))
		if _, err := s.plugin.Run(ctx, "logs", "win-1", "test", "-f"); err == nil {
			t.Error("kubectl windows logs -f exited before it was stopped")
		}
	})
}

func (s supportTest) largeLog() {
	path, err := s.Lab.Hosts()[0].Path(`C:\var\log\large\large.log`)
	must(s.t, err)
	must(s.t, os.MkdirAll(filepath.Dir(path), 0o755))
	f, err := os.Create(path)
	must(s.t, err)
	_, err = f.WriteAt([]byte("\nthe last line\n"), 2<<30)
	must(s.t, f.Close())
	must(s.t, err)
	began := time.Now()
	if r := s.run(0, []string{"logs", "win-1", "large", "--tail", "1"}); r.Out != "the last line\n" {
		s.t.Errorf("got %.100q, want only the last line", r.Out)
	}
	s.t.Logf("reading the last line of a log of 2 GB took %s", time.Since(began).Round(time.Millisecond))
	if err := os.Remove(path); err != nil {
		s.t.Error(err)
	}
}

func (s supportTest) collect() {
	file := filepath.Join(s.t.TempDir(), "case.zip")
	began := time.Now()
	s.run(0, []string{"collect", "--all", "-o", file}, "from 1 of 1 hosts")
	s.t.Logf("collect.seconds_per_host %.1f", time.Since(began).Seconds())
	files := s.unzip(file)
	name := "hosts/" + s.instances()[0].Name + "/"
	for file, want := range map[string]string{
		name + "manifest.json": `"node": "win-1"`, name + "hns.json": overlay.Network, name + "routes.json": `"gateway"`, name + "services.json": `"name": "kubelet"`,
		name + "host.json": `"build": 20348`, name + "certificates.json": "system:node:win-1", name + "files.json": `"asDeclared": true`,
		name + "logs/kubelet/kubelet.log": "kubelet", name + "logs/wicd/wicd.log": "Session started", name + "journal.json": `"change"`,
		"cluster/windowsinstances.json": api.DefaultNamespace, "cluster/status.json": "win-1", "cluster/nodes.json": "kubelet",
	} {
		if !strings.Contains(files[file], want) {
			s.t.Errorf("%s lacks %q:\n%.300s", file, want, files[file])
		}
	}
	for _, key := range []string{`C:\k\wicd-certs\wicd-client-current.pem`, `C:\var\lib\kubelet\pki\kubelet-client-current.pem`} {
		text, err := s.Lab.Hosts()[0].ReadFile(key)
		must(s.t, err)
		for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
			line := strings.Split(string(pem.EncodeToMemory(block)), "\n")[1]
			for name, content := range files {
				if strings.Contains(block.Type, "PRIVATE KEY") && strings.Contains(content, line) {
					s.t.Errorf("%s contains the private key of %s", name, key)
				}
			}
		}
	}
	s.eventually("archive and annotation are removed from host and node", func(context.Context) string {
		if report := s.node("win-1").Annotations[api.AnnotationCollected]; report != "" {
			return report
		}
		if folder, err := s.Lab.Hosts()[0].Path(`C:\var\log\collect`); err != nil {
			return err.Error()
		} else if left, _ := os.ReadDir(folder); len(left) > 0 {
			return left[0].Name()
		}
		return ""
	})
}

func (s supportTest) unzip(file string) map[string]string {
	s.t.Helper()
	r, err := zip.OpenReader(file)
	must(s.t, err)
	defer r.Close()
	files := map[string]string{}
	for _, f := range r.File {
		content, err := f.Open()
		must(s.t, err)
		text, err := io.ReadAll(content)
		if err != nil {
			s.t.Fatalf("%s: %v", f.Name, err)
		}
		files[f.Name] = string(text)
	}
	return files
}

// unreachable cuts the host off. The archive must have the API server's data, and the reason why the rest is missing.
func (s supportTest) unreachable() {
	host := s.Lab.Hosts()[0]
	must(s.t, host.Cut())
	file := filepath.Join(s.t.TempDir(), "case.zip")
	s.run(3, []string{"collect", "--all", "-o", file, "--timeout", "3s"}, "WICD did not respond within 3s", "from 0 of 1 hosts")
	if files := s.unzip(file); !strings.Contains(files["manifest.json"], "WICD did not respond") || !strings.Contains(files["cluster/nodes.json"], "win-1") {
		s.t.Errorf("got manifest %s", files["manifest.json"])
	}
	r, err := s.plugin.Run(s.t.Context(), "logs", "win-1", "kubelet", "--request-timeout", "5s")
	must(s.t, err)
	if r.Code != 4 && r.Code != 8 || !strings.Contains(r.Err, "the kubelet") || strings.Count(r.Err, "\n") != 1 { // the connection is refused or times out
		s.t.Errorf("got exit code %d and error %q, want 4 or 8 and one line about the kubelet", r.Code, r.Err)
	}
	must(s.t, host.Heal())
}
