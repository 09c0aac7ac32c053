// Package nodefiles reads the files of C:\var\log that kubelets serve, through the API server. It requests ranges, so that only the needed part
// of a large log is sent.
package nodefiles

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/shared/httpclient"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// Errors of reads.
var (
	// ErrAbsent means that the kubelet has no such file.
	ErrAbsent = errors.New("file not found")
	// ErrNoMore means that the requested range begins beyond the end of the file. The Part has the file's size.
	ErrNoMore = errors.New("the file ends before the requested range")
)

// Client reads files of nodes.
type Client struct {
	http *http.Client
	base *url.URL
}

// New returns a client. Only contexts limit its requests.
func New(config *rest.Config) (*Client, error) {
	config = rest.CopyConfig(config)
	config.Timeout = 0
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the API server: %w", err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	return &Client{http: httpclient.New(transport, 0), base: base}, nil
}

// Part is a part of a file.
type Part struct {
	Body io.ReadCloser
	// From is the offset of the part; Size is the size of the whole file, -1 if the kubelet does not report it.
	From, Size int64
	// Modified is the time of the file's last change.
	Modified time.Time
}

// Tail opens the last bytes of a file.
func (c *Client) Tail(ctx context.Context, node, file string, bytes int64) (*Part, error) {
	return c.open(ctx, node, file, fmt.Sprintf("bytes=-%d", bytes))
}

// From opens a file at an offset. It returns ErrNoMore if the file ends before it.
func (c *Client) From(ctx context.Context, node, file string, from int64) (*Part, error) {
	return c.open(ctx, node, file, fmt.Sprintf("bytes=%d-", from))
}

func (c *Client) open(ctx context.Context, node, file, bytes string) (*Part, error) {
	operation := "reading log " + file + " of node " + node
	apiPath := "/api/v1/nodes/" + url.PathEscape(node) + "/proxy/logs/" + (&url.URL{Path: file}).EscapedPath()
	response, err := c.get(ctx, apiPath, http.Header{"Range": {bytes}, "Accept": {"*/*"}})
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, session.Failf(session.CodeTimeout, "%s: the API server got no response from the kubelet within the deadline; increase it with --request-timeout", operation)
	}
	if err != nil {
		return nil, explainRedirect(err, node, operation)
	}
	part := &Part{Body: response.Body, Size: response.ContentLength}
	part.Modified, _ = http.ParseTime(response.Header.Get("Last-Modified"))
	switch response.StatusCode {
	case http.StatusOK:
		return part, nil
	case http.StatusPartialContent:
		from, size, ok := parseRange(response.Header.Get("Content-Range"))
		if !ok {
			_ = response.Body.Close()
			return nil, session.Failf(session.CodeFailed, "%s: the response has no valid Content-Range header", operation)
		}
		part.From, part.Size = from, size
		return part, nil
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusRequestedRangeNotSatisfiable {
		_, part.Size, _ = parseRange(response.Header.Get("Content-Range"))
		return part, ErrNoMore
	}
	return nil, explain(response, operation)
}

// explainRedirect explains redirects by a kubelet and renders other errors as one clear line.
func explainRedirect(err error, node, operation string) error {
	var redirect *httpclient.Redirect
	switch {
	case !errors.As(err, &redirect):
		return session.Explain(err, operation)
	case redirect.ToFolder():
		return session.Failf(session.CodeFailed, "%s: this is a folder, not a log; list the files with kubectl windows logs --list", operation)
	}
	return session.Failf(session.CodeFailed, "%s: %s: the request carries your credentials. Kubelets do not redirect: an attacker may control the host, "+
		"or another program may be listening on the kubelet's port; examine the host before you send it further requests", operation, redirect.By("the kubelet of node "+node))
}

// Get reads at most limit bytes of any path of the API server.
func (c *Client) Get(ctx context.Context, apiPath string, query url.Values, limit int64) ([]byte, error) {
	if len(query) > 0 {
		apiPath += "?" + query.Encode()
	}
	response, err := c.get(ctx, apiPath, http.Header{"Accept": {"application/json, */*"}})
	if err != nil {
		return nil, session.Explain(err, "reading "+apiPath)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, explain(response, "reading "+apiPath)
	}
	b, err := io.ReadAll(io.LimitReader(response.Body, limit))
	if err != nil {
		return nil, session.Explain(err, "reading "+apiPath)
	}
	return b, nil
}

// Stream opens any path of the API server until ctx is done.
func (c *Client) Stream(ctx context.Context, apiPath string, query url.Values) (io.ReadCloser, error) {
	response, err := c.get(ctx, apiPath+"?"+query.Encode(), http.Header{"Accept": {"*/*"}})
	if err != nil {
		return nil, session.Explain(err, "reading "+apiPath)
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		return nil, explain(response, "reading "+apiPath)
	}
	return response.Body, nil
}

func (c *Client) get(ctx context.Context, apiPath string, header http.Header) (*http.Response, error) {
	base := *c.base
	base.Path = ""
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base.String(), "/")+strings.TrimSuffix(c.base.EscapedPath(), "/")+apiPath, nil)
	if err != nil {
		return nil, err
	}
	request.Header = header
	return c.http.Do(request)
}

const maxFailure = 64 << 10

// explain renders an error response as one line. The API server responds with a Status, the kubelet with text.
func explain(response *http.Response, operation string) error {
	b, _ := io.ReadAll(io.LimitReader(response.Body, maxFailure))
	var status metav1.Status
	if json.Unmarshal(b, &status) == nil && status.Kind == "Status" {
		err := &apierrors.StatusError{ErrStatus: status}
		switch {
		case apierrors.IsNotFound(err):
			return session.Failf(session.CodeNotFound, "%s: node not found", operation)
		case apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) || status.Code == http.StatusBadGateway:
			return session.Failf(session.CodeUnreachable, "%s: the API server cannot reach the kubelet: %s", operation, truncate.Printable(status.Message, truncate.Note))
		}
		return session.Explain(err, operation)
	}
	text := truncate.Printable(strings.TrimSpace(string(b)), truncate.Note)
	switch response.StatusCode {
	case http.StatusNotFound:
		return &session.Failure{Code: session.CodeNotFound, Err: fmt.Errorf("%s: %w", operation, ErrAbsent)}
	case http.StatusUnauthorized, http.StatusForbidden:
		return session.Failf(session.CodeForbidden, "%s: the kubelet rejected the API server: %s", operation, text)
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return session.Failf(session.CodeUnreachable, "%s: the API server cannot reach the kubelet: %s", operation, text)
	}
	return session.Failf(session.CodeFailed, "%s: the response is %s: %s", operation, response.Status, text)
}

// parseRange parses the header Content-Range: "bytes 5-9/10", "bytes */10".
func parseRange(header string) (from, size int64, ok bool) {
	text, ok := strings.CutPrefix(header, "bytes ")
	if !ok {
		return 0, 0, false
	}
	part, whole, ok := strings.Cut(text, "/")
	size, err := strconv.ParseInt(whole, 10, 64)
	if !ok || err != nil || size < 0 {
		return 0, 0, false
	}
	if part == "*" {
		return size, size, true
	}
	first, _, ok := strings.Cut(part, "-")
	from, err = strconv.ParseInt(first, 10, 64)
	return from, size, ok && err == nil && from >= 0 && from <= size
}

// Limits of a listing.
const (
	maxListing = 1 << 20
	maxNames   = 1000
)

// List returns the names in a folder below C:\var\log; those of folders end with a slash.
func (c *Client) List(ctx context.Context, node, folder string) ([]string, error) {
	part, err := c.From(ctx, node, strings.TrimSuffix(folder, "/")+"/", 0)
	if err != nil {
		return nil, err
	}
	defer part.Body.Close()
	b, err := io.ReadAll(io.LimitReader(part.Body, maxListing))
	if err != nil {
		return nil, session.Explain(err, "listing logs of node "+node)
	}
	return parseListing(string(b)), nil
}

// parseListing parses the folder page of Go's file server (net/http, dirList).
func parseListing(page string) (names []string) {
	for _, m := range regexp.MustCompile(`<a href="([^"]*)">`).FindAllStringSubmatch(page, maxNames) {
		name, err := url.PathUnescape(html.UnescapeString(m[1]))
		name = strings.TrimPrefix(name, "./")
		if err == nil && CheckFile(strings.TrimSuffix(name, "/")) == nil && !strings.Contains(strings.TrimSuffix(name, "/"), "/") {
			names = append(names, name)
		}
	}
	return names
}

// CheckFile rejects anything that is not a file path below the log folder.
func CheckFile(file string) error {
	if file == "" || file == "." || path.Clean("/"+file) != "/"+file || strings.ContainsAny(file, "\\:*?\"<>|\x00\r\n") || len(file) > 255 {
		return session.Failf(session.CodeUsage, "%.64q is not the path of a log: use the path of a file below C:\\var\\log, such as kubelet/kubelet.log", file)
	}
	return nil
}
