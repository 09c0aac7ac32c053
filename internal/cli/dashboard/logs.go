package dashboard

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

const (
	// logBytes is how many bytes of the end of a log are shown.
	logBytes = 64 << 10
	// maxLogBytes is how many bytes are read: a kubelet that ignores the range sends the whole file, which may be large.
	maxLogBytes = 100 * logBytes
	// logDeadline is how long a kubelet may take to respond.
	logDeadline = 15 * time.Second
)

type service struct {
	Name string `json:"name"`
	path string // below C:\var\log
}

// services returns the logs of a host; no others can be read.
func services() []service {
	return []service{
		{"wicd", "wicd/wicd.log"}, {"kubelet", "kubelet/kubelet.log"}, {"containerd", "containerd/containerd.log"},
		{"kube-proxy", "kube-proxy/kube-proxy.log"}, {"hybrid-overlay", "hybrid-overlay/hybrid-overlay.log"},
	}
}

// logAnswer is the end of a log, or why there is none.
type logAnswer struct {
	Service string `json:"service"`
	Text    string `json:"text,omitempty"`
	Error   string `json:"error,omitempty"`
}

// tail returns the end of one log of a node. It reads it through the API server and the kubelet, with the user's permissions.
func (s *server) tail(ctx context.Context, node, name string) logAnswer {
	answer := logAnswer{Service: name}
	path := ""
	for _, known := range services() {
		if known.Name == name {
			path = known.path
		}
	}
	if path == "" {
		answer.Service, answer.Error = "", "log not found"
		return answer
	}
	ctx, cancel := context.WithTimeout(ctx, logDeadline)
	defer cancel()
	part, err := s.files.Tail(ctx, node, path, logBytes)
	if err != nil {
		answer.Error = logError(err, node, path)
		return answer
	}
	defer func() { _ = part.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(part.Body, maxLogBytes))
	if err != nil {
		answer.Error = logError(err, node, path)
	}
	text = text[max(0, len(text)-logBytes):]
	if _, whole, cut := strings.Cut(string(text), "\n"); cut && len(text) == logBytes {
		text = []byte(whole)
	}
	answer.Text = truncate.Printable(string(text), 2*logBytes)
	return answer
}

func logError(err error, node, path string) string {
	switch session.CodeOf(err) {
	case session.CodeForbidden:
		return explain(err)
	case session.CodeNotFound:
		return "node " + node + " has no log " + path
	}
	return "reading the log through the kubelet of node " + node + ": " + truncate.Printable(err.Error(), truncate.Note)
}
