//go:build linux

package pagetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/lab"
)

func TestMain(m *testing.M) { lab.RunTests(m) }

// waitTimeout limits each wait. It is long enough for a busy machine.
const waitTimeout = time.Minute

// TestPage tests the page like a user: its texts, the keyboard, accessibility, a change and a revoked permission while it is
// open, and the end of the server.
func TestPage(t *testing.T) {
	if err := CanShow(); err != nil {
		t.Skip("SKIPPED:", err)
	}
	hosts := 120
	if testing.Short() {
		hosts = 60
	}
	c, err := OpenCluster(t.Context(), hosts, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	grant(t, c)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	link, err := Serve(ctx, c.As("viewer"), "lab")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Open(t.Context(), link)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(p.Until(fmt.Sprintf(`document.querySelectorAll("#grid a").length === %d`, hosts), waitTimeout))
	for _, part := range []string{api.ReasonHostKeyChanged, "spec.hostKey", api.ReasonDrainBlocked, "shop/checkout"} {
		if text := p.Text("#problems"); !strings.Contains(text, part) {
			t.Errorf("the list of problems does not contain %q:\n%s", part, text)
		}
	}
	expectAccessible(t, p, "the fleet")
	t.Run("keyboard", func(t *testing.T) { testKeyboard(t, p) })
	t.Run("change", func(t *testing.T) { testChange(t, c, p) })
	t.Run("phone", func(t *testing.T) { testPhone(t, p) })
	t.Run("revoked permission", func(t *testing.T) { testRevokedPermission(t, c, p) })
	stop()
	must(p.Until(`document.getElementById("connection").innerText === "Not up to date"`, waitTimeout))
}

// grant grants user viewer the permissions that docs/dashboard.md lists.
func grant(t *testing.T, c *Cluster) {
	t.Helper()
	bind := func(name string, rules ...rbacv1.PolicyRule) {
		t.Helper()
		for i := range rules {
			rules[i].Verbs = []string{"get", "list", "watch"}
		}
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "viewer"}}}
		if err := errors.Join(c.Client.Create(t.Context(), role), c.Client.Create(t.Context(), binding)); err != nil {
			t.Fatal(err)
		}
	}
	bind("page-hosts", rbacv1.PolicyRule{APIGroups: []string{api.GroupName}, Resources: []string{"windowsinstances", "windowsconfigs"}},
		rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"deployments"}}, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"events"}})
	bind("page-nodes", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}})
	bind("page-pods", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}})
}

// expectAccessible expects no serious findings with light and dark colors.
func expectAccessible(t *testing.T, p *Page, what string) {
	t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		if err := p.Scheme(scheme); err != nil {
			t.Fatal(err)
		}
		findings, err := p.Accessibility()
		if errors.Is(err, errNoAxe) {
			t.Log("SKIPPED:", err)
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range findings {
			if f.Impact == "serious" || f.Impact == "critical" {
				t.Errorf("%s in %s: %s (%s): %s", what, scheme, f.Rule, f.Help, strings.Join(f.Where, "\n"))
			}
		}
	}
}

// testKeyboard filters the hosts, opens the page of one and returns, using only the keyboard.
func testKeyboard(t *testing.T, p *Page) {
	steps := []struct{ keys, until string }{
		{"/", `document.activeElement.id === "filter"`},
		{"drainblocked", `document.querySelectorAll("#rows tr").length === 1`},
		{"\t\t", `document.activeElement.closest("thead") !== null`},
		{strings.Repeat("\t", 8), `document.activeElement.innerText === "win-0031"`},
		{"\r", `document.querySelector("#host h1") !== null && document.querySelector("#host h1").innerText.includes("win-0031") && document.querySelectorAll("#host .timeline li").length === 7`},
	}
	for _, s := range steps {
		if err := p.Type(s.keys); err != nil {
			t.Fatal(err)
		}
		if err := p.Until(s.until, waitTimeout); err != nil {
			t.Fatalf("after keys %q: %v; filter %q, table %q", s.keys, err, p.Value("#filter"), p.Text("#shown"))
		}
	}
	for _, part := range []string{"DrainBlocked", "Upgrade in progress", "Transfer", "Windows Server 2022", "Conditions"} {
		if text := p.Text("#host"); !strings.Contains(text, part) {
			t.Errorf("the page of the host does not contain %q:\n%s", part, text)
		}
	}
	expectAccessible(t, p, "a host")
	if err := errors.Join(p.Type("\x1b"), p.Until(`!document.getElementById("fleet").hidden`, waitTimeout), p.Do(`location.hash = "#/"`)); err != nil {
		t.Fatal(err)
	}
}

// testChange changes a host while the page is open.
func testChange(t *testing.T, c *Cluster, p *Page) {
	if err := c.Change(t.Context(), 2, "a message of this moment"); err != nil {
		t.Fatal(err)
	}
	if err := p.Until(`document.getElementById("problems").innerText.includes("a message of this moment")`, waitTimeout); err != nil {
		t.Fatal(err)
	}
	if got := p.Text("#summary"); !strings.Contains(got, "need attention") {
		t.Errorf("got summary %q, want one with hosts that need attention", got)
	}
}

// testPhone expects that a narrow page needs no horizontal scrolling.
func testPhone(t *testing.T, p *Page) {
	if err := p.Size(360, 780); err != nil {
		t.Fatal(err)
	}
	if err := p.Until(`document.documentElement.scrollWidth <= 360`, 5*time.Second); err != nil {
		t.Error(err)
	}
	if err := errors.Join(p.Do(`location.hash = "#/host/win-0031"`), p.Until(`document.querySelectorAll("#host .timeline li").length === 7`, waitTimeout)); err != nil {
		t.Fatal(err)
	}
	if err := p.Until(`document.documentElement.scrollWidth <= 360`, 5*time.Second); err != nil {
		t.Error(err)
	}
	if err := errors.Join(p.Do(`location.hash = "#/"`), p.Size(1280, 1000)); err != nil {
		t.Fatal(err)
	}
}

// testRevokedPermission revokes the permission to read Nodes while the page is open.
func testRevokedPermission(t *testing.T, c *Cluster, p *Page) {
	if err := c.Client.Delete(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "page-nodes"}}); err != nil {
		t.Fatal(err)
	}
	if err := p.Until(`document.getElementById("unread").innerText.includes("nodes: missing permission")`, 2*waitTimeout); err != nil {
		t.Fatal(err)
	}
	if text := p.Text("#counts"); !strings.Contains(text, "failed") {
		t.Errorf("got counts %q without the permission, want those of hosts", text)
	}
}

// TestScreenshots takes the screenshots of the documents for make screenshots.
func TestScreenshots(t *testing.T) {
	folder := os.Getenv("WMCO_SCREENSHOTS")
	if folder == "" {
		t.Skip("SKIPPED: WMCO_SCREENSHOTS is not set; run make screenshots")
	}
	if err := CanShow(); err != nil {
		t.Fatal(err)
	}
	c, err := OpenCluster(t.Context(), 1000, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	link, err := Serve(t.Context(), c.RESTConfig(), "production")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Open(t.Context(), link)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	shot := func(name string, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		png, err := p.Shot()
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, "dashboard-"+name+".png"), png, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	shot("fleet", errors.Join(p.Size(1200, 1500), p.Until(`document.querySelectorAll("#grid a").length === 1000`, waitTimeout)))
	shot("dark", errors.Join(p.Size(1200, 900), p.Scheme("dark")))
	shot("host", errors.Join(p.Scheme("light"), p.Size(1200, 1150), p.Do(`location.hash = "#/host/win-0031"`), p.Until(`document.querySelectorAll("#host .timeline li").length === 7`, waitTimeout)))
	shot("phone", errors.Join(p.Size(390, 844), p.Do(`location.hash = "#/"`)))
}
