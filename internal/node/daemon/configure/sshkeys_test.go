package configure_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

const keysFile = `C:\ProgramData\ssh\administrators_authorized_keys`

// keyLine returns a distinct public key for each name.
func keyLine(name string) string {
	sum := sha256.Sum256([]byte(name))
	b := append([]byte("\x00\x00\x00\x0bssh-ed25519\x00\x00\x00\x20"), sum[:]...)
	return "ssh-ed25519 " + base64.StdEncoding.EncodeToString(b)
}

func hashOfKey(name string) string {
	sum := sha256.Sum256([]byte(keyLine(name)))
	return hex.EncodeToString(sum[:])
}

// authorized returns which of the named keys are in the file.
func authorized(t *testing.T, w *sim.Windows, names ...string) (found []string) {
	t.Helper()
	b, err := w.Disk().Read(keysFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.Contains(string(b), keyLine(name)) {
			found = append(found, name)
		}
	}
	return found
}

func TestKeysAreAddedAndOtherLinesKept(t *testing.T) {
	restricted := `from="10.0.0.0/8, 192.0.2.1",command="a \"b\" c" ` + keyLine("new") + " with options"
	for name, test := range map[string]struct{ before, want string }{
		"empty":                  {"", keyLine("new") + " operator\n"},
		"Windows' line endings":  {"# ours\r\n\r\n" + keyLine("old") + " me\r\n", "# ours\r\n\r\n" + keyLine("old") + " me\r\n" + keyLine("new") + " operator\r\n"},
		"no end":                 {keyLine("old"), keyLine("old") + "\n" + keyLine("new") + " operator\n"},
		"present":                {keyLine("new") + " other comment", keyLine("new") + " other comment"},
		"present with options":   {restricted + "\r\n", restricted + "\r\n"},
		"present after a BOM":    {"\ufeff" + keyLine("new") + "\r\n", "\ufeff" + keyLine("new") + "\r\n"},
		"in a comment":           {"#" + keyLine("new") + "\n", "#" + keyLine("new") + "\n" + keyLine("new") + " operator\n"},
		"in another's comment":   {keyLine("old") + " not " + keyLine("new") + "\n", keyLine("old") + " not " + keyLine("new") + "\n" + keyLine("new") + " operator\n"},
		"text that is not UTF-8": {"\xff\xfes\x00s\x00h\x00", "\xff\xfes\x00s\x00h\x00"},
	} {
		t.Run(name, func(t *testing.T) {
			w, r := daemontest.NewHost(t, sim.WindowsOptions{})
			daemontest.MustWrite(t, w.Disk(), keysFile, test.before)
			r.Desired.AuthorizedKeys = []string{keyLine("new") + " operator", keyLine("new")}
			daemontest.MustJoin(t, w, r)
			daemontest.ExpectContent(t, w.Disk(), keysFile, test.want)
			got, _ := w.Disk().Stat(keysFile)
			daemontest.ExpectNoChange(t, w, r)
			if now, err := w.Disk().Stat(keysFile); err != nil || !os.SameFile(got, now) {
				t.Errorf("the second join wrote the file again, %v", err)
			}
			daemontest.MustLeave(t, w, r.Cluster)
			daemontest.ExpectContent(t, w.Disk(), keysFile, test.want)
		})
	}
}

func TestHostWithoutOpenSSHGetsNoKeys(t *testing.T) {
	w, r := daemontest.NewHost(t, sim.WindowsOptions{})
	r.Desired.AuthorizedKeys = []string{keyLine("new")}
	daemontest.MustJoin(t, w, r)
	if w.Disk().Exists(keysFile) {
		t.Error("the file exists")
	}
}

// newKeyHolder returns a node of a cluster whose operator uses key "old", which the user added to the host, beside a key of the user.
func newKeyHolder(t *testing.T, authorizedKeys ...string) *daemontest.Member {
	t.Helper()
	m := daemontest.NewIsolated(t, "")
	daemontest.MustWrite(t, m.Windows.Disk(), keysFile, "# the user's\r\n"+keyLine("user")+"\r\n"+keyLine("old")+"\r\n")
	annotateKey(m, "old")
	rotate(t, m, authorizedKeys)
	return m
}

// annotateKey annotates the Node as the operator does after it has logged in with a key.
func annotateKey(m *daemontest.Member, name string) {
	m.Annotate(map[string]any{api.AnnotationPubKeyHash: hashOfKey(name)})
}

// rotate publishes keys by name, and waits until the node has followed.
func rotate(t *testing.T, m *daemontest.Member, authorizedKeys []string, retired ...string) {
	t.Helper()
	node := m.Request.Desired
	node.AuthorizedKeys, node.RetiredKeys = nil, nil
	for _, name := range authorizedKeys {
		node.AuthorizedKeys = append(node.AuthorizedKeys, keyLine(name))
	}
	for _, name := range retired {
		node.RetiredKeys = append(node.RetiredKeys, keyLine(name))
	}
	m.Publish(t, node)
	time.Sleep(settle)
}

// settle is long enough for WICD to follow, and for the kubelet's next heartbeat.
const settle = 6 * time.Minute

func expectKeys(t *testing.T, m *daemontest.Member, when string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, authorized(t, m.Windows, "user", "old", "new", "newer")); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

func TestOldKeyStaysUntilNewIsProven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newKeyHolder(t, "old")
		before := m.PIDs()
		expectKeys(t, m, "before", "user", "old")
		rotate(t, m, []string{"new", "old"})
		expectKeys(t, m, "both work", "user", "old", "new")
		rotate(t, m, []string{"new"}, "old")
		expectKeys(t, m, "the new one is not proven", "user", "old", "new")
		annotateKey(m, "new")
		time.Sleep(settle)
		expectKeys(t, m, "the new one is proven", "user", "new")
		if b, _ := m.Windows.Disk().Read(keysFile); !strings.HasPrefix(string(b), "# the user's\r\n"+keyLine("user")+"\r\n") {
			t.Errorf("the file is %q", b)
		}
		rotate(t, m, []string{"newer"})
		annotateKey(m, "newer")
		time.Sleep(settle)
		expectKeys(t, m, "keys that WICD added are removed", "user", "newer")
		if diff := cmp.Diff(before, m.PIDs()); diff != "" {
			t.Errorf("services were restarted (-before +after):\n%s", diff)
		}
	})
}

func TestNoKeyIsRemovedWithoutProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newKeyHolder(t, "old", "new")
		for when, step := range map[string]func(){
			"no keys are published": func() { rotate(t, m, nil, "old", "user") },
			"another key is proven": func() { rotate(t, m, []string{"new"}, "old"); annotateKey(m, "newer") },
			"a retired one is":      func() { rotate(t, m, []string{"new"}, "old"); annotateKey(m, "old") },
		} {
			step()
			time.Sleep(settle)
			expectKeys(t, m, when, "user", "old", "new")
		}
		// The proven key is removed while WICD does not notice: WICD must not remove the rest.
		daemontest.MustWrite(t, m.Windows.Disk(), keysFile, keyLine("old")+"\n")
		annotateKey(m, "new")
		m.Annotate(map[string]any{"other": "x"})
		time.Sleep(10 * time.Second)
		if !slices.Contains(authorized(t, m.Windows, "old"), "old") {
			t.Error("the last key was removed")
		}
	})
}

// TestKeysAreRestoredAndRotationContinues: a key that was removed is restored, and an interrupted rotation continues.
func TestKeysAreRestoredAndRotationContinues(t *testing.T) {
	for _, fails := range []string{
		"rename " + keysFile, "write " + keysFile + ".new", "rename " + desired.State + `\keys.json`, `protect ` + keysFile + ".new",
	} {
		t.Run(fails, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newKeyHolder(t, "old")
				m.Windows.FailNext(fails)
				rotate(t, m, []string{"old", "new"})
				expectKeys(t, m, "after the upkeep", "user", "old", "new")
				m.Windows.FailNext(fails)
				annotateKey(m, "new")
				rotate(t, m, []string{"new"}, "old")
				time.Sleep(settle)
				expectKeys(t, m, "after the next event of the Node", "user", "new")
				daemontest.MustWrite(t, m.Windows.Disk(), keysFile, "")
				time.Sleep(settle)
				expectKeys(t, m, "after the file was emptied", "new")
			})
		})
	}
}
