package cli_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/cli/session"
)

// TestCommandsFollowNoRedirects expects the user's token to be sent to the API server only, regardless of which component redirects.
func TestCommandsFollowNoRedirects(t *testing.T) {
	for _, test := range []struct {
		from  string // the path that responds with a redirect
		args  []string
		print string
		code  int
	}{
		{"/api/v1/nodes/win-1/proxy/", []string{"logs", "win-1", "kubelet"}, "the kubelet of node win-1 redirects the request", session.CodeFailed},
		{"/api/v1/nodes/win-1/proxy/", []string{"logs", "win-1", "--list"}, "the kubelet of node win-1 redirects the request", session.CodeFailed},
		{"/apis/" + api.GroupName, []string{"status"}, "the API server redirects the request", session.CodeFailed},
		{"/apis/" + api.GroupName, []string{"pause", "win-1"}, "the API server redirects the request", session.CodeFailed},
	} {
		var got []string
		other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			got = append(got, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization"))
		}))
		c := upgrading(t)
		c.Handle(test.from, http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
		r := c.Run(t, "", test.args...)
		if r.Code != test.code || !strings.Contains(r.Err+r.Out, test.print) || len(got) > 0 {
			t.Errorf("%v: exit code %d, %.300s%.300s; the other server got %q", test.args, r.Code, r.Out, r.Err, got)
		}
		other.Close()
	}
}
