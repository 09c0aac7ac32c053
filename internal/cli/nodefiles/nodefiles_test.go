package nodefiles

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/windows-machine-config/wmco/internal/cli/session"
)

// countingServer serves a folder as a kubelet does and counts the bytes it sends.
func countingServer(t *testing.T, folder string) (*Client, *int64) {
	t.Helper()
	var sent int64
	files := http.StripPrefix("/api/v1/nodes/win-1/proxy/logs/", http.FileServer(http.Dir(folder)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/api/v1/nodes/gone/"):
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","reason":"NotFound","code":404,"message":"nodes \"gone\" not found"}`)
		case strings.HasPrefix(r.URL.Path, "/api/v1/nodes/silent/"):
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","reason":"ServiceUnavailable","code":503,"message":"error trying to reach service: dial tcp 10.0.0.1:10250: connect: connection refused"}`)
		case strings.HasPrefix(r.URL.Path, "/api/v1/nodes/denied/"):
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","reason":"Forbidden","code":403,"message":"nodes \"denied\" is forbidden: User \"bob\" cannot get resource \"nodes/proxy\" in API group \"\" at the cluster scope"}`)
		default:
			files.ServeHTTP(&counting{w, &sent}, r)
		}
	}))
	t.Cleanup(server.Close)
	c, err := New(&rest.Config{Host: server.URL, Timeout: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	return c, &sent
}

type counting struct {
	http.ResponseWriter
	sent *int64
}

func (c *counting) Write(p []byte) (int, error) {
	*c.sent += int64(len(p))
	return c.ResponseWriter.Write(p)
}

func mustReadAll(t *testing.T, p *Part) string {
	t.Helper()
	defer p.Body.Close()
	b, err := io.ReadAll(p.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestOnlyTailOfLargeLogIsSent(t *testing.T) {
	folder := t.TempDir()
	f, err := os.Create(filepath.Join(folder, "kubelet.log"))
	if err != nil {
		t.Fatal(err)
	}
	const size = 2 << 30
	if _, err := f.WriteAt([]byte("the last line\n"), size-14); err != nil { // the file is sparse
		t.Fatal(err)
	}
	_ = f.Close()
	c, sent := countingServer(t, folder)
	p, err := c.Tail(t.Context(), "win-1", "kubelet.log", 1000)
	if err != nil {
		t.Fatal(err)
	}
	if text := mustReadAll(t, p); !strings.HasSuffix(text, "the last line\n") || len(text) != 1000 || p.From != size-1000 || p.Size != size {
		t.Errorf("got %d bytes from %d of %d", len(text), p.From, p.Size)
	}
	if *sent > 2000 {
		t.Errorf("%d bytes were sent", *sent)
	}
	if p, err := c.From(t.Context(), "win-1", "kubelet.log", size); !errors.Is(err, ErrNoMore) || p.Size != size {
		t.Errorf("after the end: %+v, %v", p, err)
	}
}

func TestSmallFilesAndFolders(t *testing.T) {
	folder := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(folder, "a b.log"), []byte("short"), 0o600), os.WriteFile(filepath.Join(folder, "empty.log"), nil, 0o600),
		os.Mkdir(filepath.Join(folder, "kubelet"), 0o700)); err != nil {
		t.Fatal(err)
	}
	c, _ := countingServer(t, folder)
	for name, want := range map[string]string{"a b.log": "short", "empty.log": ""} {
		p, err := c.Tail(t.Context(), "win-1", name, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if text := mustReadAll(t, p); text != want || p.Size != int64(len(want)) {
			t.Errorf("%s has %q of %d bytes", name, text, p.Size)
		}
	}
	names, err := c.List(t.Context(), "win-1", "")
	if err != nil || !slices.Equal(names, []string{"a b.log", "empty.log", "kubelet/"}) {
		t.Errorf("the folder has %q, %v", names, err)
	}
}

func TestFailuresMapToExitCodes(t *testing.T) {
	c, _ := countingServer(t, t.TempDir())
	for node, test := range map[string]struct {
		code int
		say  string
	}{
		"win-1":  {session.CodeNotFound, "file not found"},
		"gone":   {session.CodeNotFound, "node not found"},
		"silent": {session.CodeUnreachable, "cannot reach the kubelet"},
		"denied": {session.CodeForbidden, "get nodes/proxy"},
	} {
		_, err := c.Tail(t.Context(), node, "kubelet/kubelet.log", 10)
		if err == nil || session.CodeOf(err) != test.code || !strings.Contains(err.Error(), test.say) {
			t.Errorf("%s: code %d, %v", node, session.CodeOf(err), err)
		}
		if node == "win-1" && !errors.Is(err, ErrAbsent) {
			t.Errorf("an absent file is %v", err)
		}
	}
}

func FuzzListing(f *testing.F) {
	f.Add(`<pre><a href="kubelet/">kubelet/</a> <a href="..%2f..%2fx">x</a> <a href="a%5cb">y</a></pre>`)
	f.Fuzz(func(t *testing.T, page string) {
		for _, name := range parseListing(page) {
			if name = strings.TrimSuffix(name, "/"); strings.ContainsAny(name, "/\\:\x00") || name == ".." || name == "" {
				t.Errorf("%q has %q", page, name)
			}
		}
	})
}

func FuzzRange(f *testing.F) {
	f.Add("bytes 5-9/10")
	f.Add("bytes */10")
	f.Fuzz(func(t *testing.T, header string) {
		if from, size, ok := parseRange(header); ok && (from < 0 || from > size) {
			t.Errorf("%q is from %d of %d", header, from, size)
		}
	})
}
