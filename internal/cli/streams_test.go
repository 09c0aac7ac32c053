package cli_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-logr/logr/funcr"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windows-machine-config/wmco/internal/cli"
	"github.com/windows-machine-config/wmco/internal/cli/session"
)

// broken is a pipe whose reader is closed.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestBrokenPipeEndsProgramQuietly(t *testing.T) {
	for _, args := range [][]string{{"status"}, {"status", "-o", "json"}, {"describe", "win-1"}, {"plan"}} {
		var errs bytes.Buffer
		streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: broken{}, ErrOut: &errs}
		code := cli.Run(t.Context(), append(args, "--kubeconfig", upgrading(t).Kubeconfig), streams, "v1.0.0")
		if code != session.CodeFailed || errs.Len() > 0 {
			t.Errorf("%v: exit code %d, %q", args, code, errs.String())
		}
	}
}

// TestFailureIsPrintedOnce interrupts the API server's response, which client-go would log, too.
func TestFailureIsPrintedOnce(t *testing.T) {
	state := klog.CaptureState()
	defer state.Restore()
	var logged bytes.Buffer
	klog.SetLogger(funcr.New(func(_, text string) { logged.WriteString(text) }, funcr.Options{}))
	c := fleet(t)
	c.Handle("/apis/windowsmachineconfig.openshift.io/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte("{"))
	}))
	r := c.Run(t, "", "status")
	if r.Code == session.CodeOK || strings.Count(r.Err, "\n") != 1 || logged.Len() > 0 {
		t.Errorf("exit code %d, stderr %q, log %q", r.Code, r.Err, logged.String())
	}
}

// TestLibrariesDoNotLog expects a logger for controller-runtime. Without one, it writes a stack trace to the error stream when a command that has run for
// 30 seconds creates another client.
func TestLibrariesDoNotLog(t *testing.T) {
	fleet(t).Run(t, "", "status")
	if sink := fmt.Sprintf("%T", log.Log.WithName("test").GetSink()); sink != "log.NullLogSink" {
		t.Errorf("controller-runtime logs to %s, want log.NullLogSink", sink)
	}
}

// TestFailingCredentialPluginRunsOnce uses a kubeconfig whose credential plugin fails.
func TestFailingCredentialPluginRunsOnce(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler()) // clients send no credentials over plain HTTP
	defer server.Close()
	for _, args := range [][]string{{"status"}, {"describe", "win-1"}, {"check"}} {
		folder := t.TempDir()
		program, runs := filepath.Join(folder, "login"), filepath.Join(folder, "runs")
		if err := os.WriteFile(program, []byte("#!/bin/sh\necho run >> "+runs+"\nexit 1\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		kubeconfig := fleet(t).Kubeconfig
		config, err := clientcmd.LoadFromFile(kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		config.Clusters["test"] = &clientcmdapi.Cluster{Server: server.URL, InsecureSkipTLSVerify: true}
		config.AuthInfos["test"] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{Command: program, APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}}
		if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
			t.Fatal(err)
		}
		streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &bytes.Buffer{}, ErrOut: &bytes.Buffer{}}
		if code := cli.Run(t.Context(), append(args, "--kubeconfig", kubeconfig), streams, "v1.0.0"); code == session.CodeOK {
			t.Errorf("%v: exit code %d", args, code)
		}
		if times, err := os.ReadFile(runs); err != nil || strings.Count(string(times), "run") != 1 {
			t.Errorf("%v: the program was run %d times (%v)", args, strings.Count(string(times), "run"), err)
		}
	}
}

func TestHostsAndFormatsAreCompleted(t *testing.T) {
	for line, want := range map[string]string{"describe": "win-1\nwin-2\nwin-3\n", "status -o": "json\nyaml\nwide\nname\n"} {
		args := append([]string{"__complete"}, strings.Fields(line)...)
		r := fleet(t).Run(t, "", append(args, "")...)
		if r.Code != session.CodeOK || !strings.HasPrefix(r.Out, want) {
			t.Errorf("%s is completed with %q (exit code %d: %s), want %q", line, r.Out, r.Code, r.Err, want)
		}
	}
}
