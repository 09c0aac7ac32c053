package collect_test

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	daemonstate "github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/supportbundle"
)

// requestCollection requests a collection as the operator does; an empty id removes the request.
func requestCollection(m *daemontest.Member, id string) {
	var value any
	if id != "" {
		value = id
	}
	m.Annotate(map[string]any{api.AnnotationCollect: value})
}

func collection(m *daemontest.Member) supportbundle.Status {
	s, _ := supportbundle.ParseStatus(m.Node().Annotations[api.AnnotationCollected])
	return s
}

func awaitCollection(t *testing.T, m *daemontest.Member, id string, want supportbundle.State) supportbundle.Status {
	t.Helper()
	daemontest.Await(t, "collection "+id+" is "+string(want), func() bool { s := collection(m); return s.ID == id && s.State == want })
	return collection(m)
}

// unzip reads an archive on the host.
func unzip(t *testing.T, m *daemontest.Member, id string) map[string]string {
	t.Helper()
	b, err := m.Windows.Disk().Read(desired.Collections + `\` + id + ".zip")
	if err != nil {
		t.Fatal(err)
	}
	r, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range r.File {
		text, err := fs.ReadFile(r, f.Name)
		if err != nil {
			t.Fatal(err)
		}
		files[f.Name] = string(text)
	}
	return files
}

func TestNodeCollectsState(t *testing.T) {
	t.Parallel()
	m := daemontest.NewFollower(t, daemontest.Options{})
	m.Windows.WriteEvent("System", hostapi.Event{Provider: "Service Control Manager", ID: 7031, Level: hostapi.EventError, Message: "kubelet terminated"})
	daemontest.Await(t, "events are copied", func() bool { return m.Windows.Disk().Exists(desired.Logs + `\eventlog\System.log`) })
	requestCollection(m, "one")
	status := awaitCollection(t, m, "one", supportbundle.Done)
	info, err := m.Windows.Disk().Stat(desired.Collections + `\one.zip`)
	if err != nil || info.Size() != status.Bytes {
		t.Errorf("the archive has another size than %+v: %v", status, err)
	}
	files := unzip(t, m, "one")
	for name, want := range map[string]string{
		"manifest.json": `"node": "win-1"`, "host.json": `"bootID"`, "node.json": m.Request.Desired.Version, "services.json": `"name": "kubelet"`,
		"hns.json": `"Networks"`, "routes.json": `"to": "0.0.0.0/0"`, "firewall.json": `"rules"`, "containerd.json": `"networkReady": true`,
		"certificates.json": `"notAfter"`, "files.json": `"asDeclared": true`, "logs.json": `kubelet.log`, "journal.json": `"change"`,
		"logs/eventlog/System.log": "kubelet terminated",
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s lacks %q:\n%.500s", name, want, files[name])
		}
	}
	var manifest supportbundle.Manifest
	if err := json.Unmarshal([]byte(files["manifest.json"]), &manifest); err != nil || manifest.ID != "one" || len(manifest.LeftOut) == 0 {
		t.Errorf("the manifest is %+v, %v", manifest, err)
	}
	for _, one := range manifest.Files {
		if one.Error != "" {
			t.Errorf("%s: %s", one.Name, one.Error)
		}
	}
	requestCollection(m, "two")
	awaitCollection(t, m, "two", supportbundle.Done)
	if names, _ := m.Windows.Disk().List(desired.Collections); !slices.Equal(names, []string{"two.zip"}) {
		t.Errorf("after the second collection, there is %q", names)
	}
	requestCollection(m, "")
	daemontest.Await(t, "the report and the archive are removed", func() bool {
		names, _ := m.Windows.Disk().List(desired.Collections)
		_, reported := m.Node().Annotations[api.AnnotationCollected]
		return len(names) == 0 && !reported
	})
}

func TestInterruptedCollectionIsRepeated(t *testing.T) {
	t.Parallel()
	m := daemontest.NewFollower(t, daemontest.Options{})
	daemontest.MustWrite(t, m.Windows.Disk(), desired.Collections+`\one.zip.new`, "half an archive")
	daemontest.MustWrite(t, m.Windows.Disk(), desired.Collections+`\older.zip`, "of another day")
	daemontest.MustWrite(t, m.Windows.Disk(), desired.Collections+`\notes.txt`, "somebody's")
	m.Stop()
	requestCollection(m, "one")
	m.Start(t)
	awaitCollection(t, m, "one", supportbundle.Done)
	unzip(t, m, "one")
	if names, _ := m.Windows.Disk().List(desired.Collections); !slices.Equal(names, []string{"notes.txt", "one.zip"}) {
		t.Errorf("there is %q", names)
	}
}

func TestExpiredCollectionIsNotRepeated(t *testing.T) {
	t.Parallel()
	m := daemontest.NewFollower(t, daemontest.Options{})
	m.Stop()
	requestCollection(m, "one")
	done := supportbundle.Status{ID: "one", State: supportbundle.Done, Time: time.Now().Add(-2 * supportbundle.Keep), Bytes: 3}
	m.Annotate(map[string]any{api.AnnotationCollected: done.Annotation()})
	m.Start(t)
	awaitCollection(t, m, "one", supportbundle.Expired)
	if m.Windows.Disk().Exists(desired.Collections + `\one.zip`) {
		t.Error("an archive exists")
	}
}

func TestInvalidCollectionIDsAreIgnored(t *testing.T) {
	t.Parallel()
	m := daemontest.NewFollower(t, daemontest.Options{})
	for _, id := range []string{`..\..\k\state\node`, "../x", "CON", strings.Repeat("x", 41)} {
		requestCollection(m, id)
	}
	requestCollection(m, "good")
	awaitCollection(t, m, "good", supportbundle.Done)
	if names, _ := m.Windows.Disk().List(desired.Collections); !slices.Equal(names, []string{"good.zip"}) {
		t.Errorf("there is %q", names)
	}
}

func TestCollectionFailsOnFullDisk(t *testing.T) {
	t.Parallel()
	m := daemontest.NewFollower(t, daemontest.Options{})
	m.Windows.FailNext("rename " + desired.Collections + `\one.zip`)
	requestCollection(m, "one")
	if s := awaitCollection(t, m, "one", supportbundle.Failed); s.Message == "" {
		t.Errorf("the report is %+v", s)
	}
	requestCollection(m, "two")
	awaitCollection(t, m, "two", supportbundle.Done)
}

// TestCollectionContainsNoSecrets plants secrets in every possible place, and searches the archive.
func TestCollectionContainsNoSecrets(t *testing.T) {
	t.Parallel()
	const proxy, registry, stranger = "Pr0xyPassw0rd", "Reg1stryPassw0rd", "Str4ngersPassw0rd"
	auth := base64.StdEncoding.EncodeToString([]byte("me:" + registry))
	m := daemontest.NewFollower(t, daemontest.Options{})
	node := m.Request.Desired
	node.Services = slices.Clone(node.Services)
	node.Services[0].Reads = []string{"HTTP_PROXY"}
	node.WatchedEnvironment = []string{"HTTP_PROXY"}
	node.SecretsVersion = m.PublishSecrets(t, desired.Secrets{
		Files:       []desired.File{{Path: daemontest.CredentialFile, Content: `{"auths":{"quay.example":{"auth":"` + auth + `"}}}`}},
		Environment: map[string]string{"HTTP_PROXY": "http://me:" + proxy + "@proxy:3128"},
	})
	m.Follow(t, node)

	disk := m.Windows.Disk()
	m.Windows.SetVariable("BACKUP_KEY", stranger)
	daemontest.MustDeclare(t, m.Windows, desired.Service{Name: "sshd", Description: "a service of Windows", Command: `C:\Windows\sshd.exe -p ` + stranger})
	reported := "level=info msg=pulling proxy=http://me:" + proxy + "@proxy:3128 plain " + proxy + " header " + auth + " pair me:" + registry + "\n" +
		"Authorization: Bearer " + stranger + "\n--token " + stranger + "\n-----BEGIN PRIVATE KEY-----\n" + stranger + "\n-----END PRIVATE KEY-----\n"
	for _, name := range []string{`kubelet\kubelet.log`, `containerd\containerd.log`, `wicd\update.log`, `kubelet\unlisted.txt`, `pods\a\0.log`} {
		daemontest.MustWrite(t, disk, desired.Logs+`\`+name, reported)
	}
	daemontest.MustWrite(t, disk, `C:\k\kubelet.conf`, `{"staticPodURLHeader": {"Authorization": ["`+stranger+`"]}}`)
	m.Windows.WriteEvent("System", hostapi.Event{Provider: "Service Control Manager", ID: 7045, Message: `installed: C:\x.exe --password ` + stranger + " " + proxy})
	daemontest.Await(t, "events are copied", func() bool { return disk.Exists(desired.Logs + `\eventlog\System.log`) })
	daemonstate.RecordChange(disk, slog.New(slog.DiscardHandler), "test", "variable HTTP_PROXY is http://me:"+proxy+"@proxy:3128, and "+auth)

	requestCollection(m, "secrets")
	awaitCollection(t, m, "secrets", supportbundle.Done)
	planted := append(privateKeys(t, disk), proxy, registry, stranger, auth, m.Cluster.Token)
	files := unzip(t, m, "secrets")
	if !strings.Contains(files["logs/wicd/update.log"], "level=info msg=pulling proxy=*** plain ***") {
		t.Errorf("update.log is %q", files["logs/wicd/update.log"])
	}
	for name, content := range files {
		for _, secret := range planted {
			if secret != "" && strings.Contains(content, secret) {
				t.Errorf("%s has the secret %q", name, secret)
			}
		}
	}
	if _, taken := files["logs/kubelet/unlisted.txt"]; taken {
		t.Error("an unlisted file was accepted")
	}
}

// privateKeys returns a line of each private key on the host, and fails if there is none.
func privateKeys(t *testing.T, d hostapi.Disk) (lines []string) {
	t.Helper()
	err := d.Walk(`C:`, func(name string, info fs.FileInfo) error {
		if info.IsDir() || info.Size() > 1<<16 {
			return nil
		}
		b, err := os.ReadFile(d.Local(name))
		if err != nil {
			return err
		}
		for block, rest := pem.Decode(b); block != nil; block, rest = pem.Decode(rest) {
			if strings.Contains(block.Type, "PRIVATE KEY") && !strings.Contains(name, `\log\`) {
				text := string(pem.EncodeToMemory(block))
				lines = append(lines, strings.Split(text, "\n")[1])
			}
		}
		return nil
	})
	if err != nil || len(lines) == 0 {
		t.Fatalf("there are %d private keys on the host, %v", len(lines), err)
	}
	return lines
}
