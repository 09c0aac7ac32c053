package sim_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sim/servers"
	"github.com/windows-machine-config/wmco/payload/compress"
	"github.com/windows-machine-config/wmco/payload/selfextract"
)

// patience is the timeout of every wait.
const patience = time.Minute

const nodePath = "/api/v1/nodes/win-1"

// operator is the other end of the connection to a host.
type operator struct{ client *ssh.Client }

// Run implements wicdapi.Runner.
func (o operator) Run(ctx context.Context, command string, stdin io.Reader, stdout io.Writer) error {
	s, err := o.client.NewSession()
	if err != nil {
		return err
	}
	defer s.Close()
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	s.Stdin, s.Stdout = stdin, stdout
	return s.Run(command)
}

func mustKey(t *testing.T) ssh.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

func mustStart(t *testing.T, key ssh.Signer, o sim.Options) *sim.Host {
	t.Helper()
	o.ListenAddr, o.AuthorizedKeys = "127.1.0.1:0", []ssh.PublicKey{key.PublicKey()}
	o.Windows.Root = t.TempDir()
	h, err := sim.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

func mustDial(t *testing.T, h *sim.Host, key ssh.Signer) operator {
	t.Helper()
	client, err := ssh.Dial("tcp", h.Addr(), &ssh.ClientConfig{
		User: "Administrator", Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(), Timeout: patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return operator{client}
}

func (o operator) mustUpload(t *testing.T, name string, content []byte) {
	t.Helper()
	files, err := sftp.NewClient(o.client)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	f, err := files.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func mustCompress(t *testing.T, content []byte) []byte {
	t.Helper()
	var frame bytes.Buffer
	if err := compress.Compress(&frame, bytes.Clone(content), compress.Dictionary{}, true); err != nil {
		t.Fatal(err)
	}
	return frame.Bytes()
}

func mustPack(t *testing.T, program []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	err := selfextract.Write(&out, strings.NewReader("stub"), bytes.NewReader(mustCompress(t, program)),
		selfextract.Program{SHA256: sha256.Sum256(program), Size: int64(len(program))})
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func hashOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func TestAProgramThatIsNotThereIsAnsweredAsCmdDoes(t *testing.T) {
	key := mustKey(t)
	o := mustDial(t, mustStart(t, key, sim.Options{}), key)
	s, err := o.client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.CombinedOutput(`.\\wicd-0123456789abcdef.exe facts`)
	if err == nil || !strings.Contains(string(out), "is not recognized as an internal or external command") {
		t.Errorf("the output is %q, %v", out, err)
	}
}

func TestSetupInstallsWICDOnTheHost(t *testing.T) {
	key := mustKey(t)
	o := mustDial(t, mustStart(t, key, sim.Options{Windows: sim.WindowsOptions{Hostname: "WIN-1"}}), key)
	program := []byte("the bytes of WICD")
	o.mustUpload(t, "wicd-1-setup.exe", mustPack(t, program))
	for _, command := range []string{`.\\wicd-1-setup.exe facts`, `.\\wicd-` + hashOf(program)[:16] + `.exe facts`} {
		var facts wicdapi.Facts
		if err := wicdapi.Call(t.Context(), o, command, nil, &facts, nil); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		if facts.Program != hashOf(program) || facts.Host.Hostname != "WIN-1" {
			t.Errorf("%s: program %q on %q", command, facts.Program, facts.Host.Hostname)
		}
	}
}

func TestATruncatedSetupReportsAnError(t *testing.T) {
	key := mustKey(t)
	o := mustDial(t, mustStart(t, key, sim.Options{}), key)
	whole := mustPack(t, []byte("the bytes of WICD"))
	for name, content := range map[string][]byte{"cut-setup.exe": whole[:len(whole)-5], "damaged-setup.exe": append([]byte("stub#"), whole[6:]...)} {
		if name == "damaged-setup.exe" {
			content = bytes.Clone(whole)
			content[len("stub")+8] ^= 1
		}
		o.mustUpload(t, name, content)
		err := wicdapi.Call(t.Context(), o, `.\\`+name+` facts`, nil, nil, nil)
		if failed := wicdapi.Failed(err); failed == nil || failed.Code != wicdapi.CodeSetupFailed {
			t.Errorf("%s: %v, want SetupFailed", name, err)
		}
	}
}

// fixture is a cluster, a host, and the data for a join.
type fixture struct {
	cluster  *servers.Cluster
	host     *sim.Host
	operator operator
	request  wicdapi.JoinRequest
	contents map[string][]byte
	list     []wicdapi.Content
}

func newFixture(t *testing.T, o sim.Options) *fixture {
	t.Helper()
	cluster, err := servers.NewCluster()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	key := mustKey(t)
	w := &fixture{cluster: cluster, host: mustStart(t, key, o), contents: map[string][]byte{}}
	w.operator = mustDial(t, w.host, key)
	w.operator.mustUpload(t, "setup.exe", mustPack(t, []byte("WICD")))
	digest := hashOf([]byte("a payload"))
	folder := desired.VersionFolder(digest)
	w.request = wicdapi.JoinRequest{
		Cluster: "cluster", Local: desired.Local{Node: "win-1", NodeIP: "127.1.0.1"}, MayReboot: true,
		Bootstrap: wicdapi.Bootstrap{Server: cluster.URL, CA: cluster.CA, Token: cluster.Token},
		Desired: desired.Node{
			Version: "1.0.0-abc", Digest: digest, Features: []string{"Containers"},
			Directories: []string{desired.Logs + `\kubelet`, desired.KubeletCertificates},
			Files: []desired.File{{
				Path: `C:\k\kubelet.conf`, Content: `{"registerWithTaints":[{"key":"os","value":"Windows","effect":"NoSchedule"}]}`,
			}},
			Services: []desired.Service{
				service("containerd", folder+`\containerd\containerd.exe`),
				service("kubelet", fmt.Sprintf(`%s\kube-log-runner.exe -log-file=C:\var\log\kubelet\kubelet.log %[1]s\kubelet.exe --config=C:\k\kubelet.conf`+
					` --bootstrap-kubeconfig=%s --kubeconfig=%s --cert-dir=%s --node-labels=node.openshift.io/os_id=Windows`+
					` --hostname-override=${NODE_NAME} --node-ip=${NODE_IP}`,
					folder, desired.BootstrapKubeconfig, desired.KubeletKubeconfig, desired.KubeletCertificates), "containerd"),
				service(api.WICDService, folder+`\windows-instance-config-daemon.exe run --windows-service --log-file C:\var\log\wicd\wicd.log`),
			},
			CNI: &desired.CNI{Path: `C:\k\cni\config\cni.conf`, Content: `{"name":"net","type":"overlay","subnet":"{{.PodCIDR}}"}`},
		},
	}
	for _, name := range []string{`containerd\containerd.exe`, "kube-log-runner.exe", "kubelet.exe", "windows-instance-config-daemon.exe"} {
		content := []byte("program " + name)
		hash := hashOf(content)
		w.contents[hash] = mustCompress(t, content)
		w.request.Desired.Payload = append(w.request.Desired.Payload, desired.PayloadFile{Path: name, SHA256: hash, Size: int64(len(content))})
		w.list = append(w.list, wicdapi.Content{SHA256: hash, Size: int64(len(content)), CompressedSize: int64(len(w.contents[hash]))})
	}
	return w
}

func service(name, command string, dependsOn ...string) desired.Service {
	return desired.Service{Name: name, Description: desired.ServiceDescription(name), Command: command, DependsOn: dependsOn}
}

func (w *fixture) open(sha256 string, offset int64) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(w.contents[sha256][offset:])), nil
}

func (w *fixture) mustJoin(t *testing.T) wicdapi.JoinResult {
	t.Helper()
	if _, err := wicdapi.Send(t.Context(), w.operator, `.\\setup.exe receive`, w.list, w.open, nil); err != nil {
		t.Fatal(err)
	}
	var result wicdapi.JoinResult
	if err := wicdapi.Call(t.Context(), w.operator, `.\\setup.exe join`, w.request, &result, nil); err != nil {
		t.Fatal(err)
	}
	return result
}

// await waits until the node satisfies a condition.
func (w *fixture) await(t *testing.T, what string, holds func(corev1.Node) bool) corev1.Node {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var node corev1.Node
	err := w.cluster.Await(ctx, func() bool {
		node = corev1.Node{}
		return w.cluster.Get(nodePath, &node) && holds(node)
	})
	if err != nil {
		log, _ := w.host.Windows().Disk().Read(`C:\var\log\wicd\wicd.log`)
		kubelet, _ := w.host.Windows().Disk().Read(`C:\var\log\kubelet\kubelet.log`)
		t.Fatalf("waited %v until %s; WICD's log:\n%s\nkubelet's log:\n%s", patience, what, log, kubelet)
	}
	return node
}

func ready(n corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func (w *fixture) giveRange() {
	w.cluster.Patch(nodePath, map[string]any{"spec": map[string]any{"podCIDR": "10.132.0.0/24"}})
}

func TestAHostBecomesAReadyNode(t *testing.T) {
	w := newFixture(t, sim.Options{Windows: sim.WindowsOptions{Hostname: "WIN-1"}})
	w.mustJoin(t)
	registered := w.await(t, "the node is registered", func(corev1.Node) bool { return true })
	if ready(registered) || registered.Labels["node.openshift.io/os_id"] != "Windows" || len(registered.Spec.Taints) != 1 {
		t.Errorf("the node is registered as %+v", registered)
	}
	w.giveRange()
	node := w.await(t, "the version is reported", func(n corev1.Node) bool {
		return n.Annotations[api.AnnotationVersion] == "1.0.0-abc"
	})
	if !ready(node) || node.Status.NodeInfo.BootID != w.host.Windows().BootID() {
		t.Errorf("the version is reported of a node that is %+v", node.Status)
	}
	disk := w.host.Windows().Disk()
	if disk.Exists(desired.BootstrapKubeconfig) {
		t.Error("the bootstrap token is still there")
	}
	if again := w.mustJoin(t); again.Changed != nil {
		t.Errorf("a second join changed %q", again.Changed)
	}
	counts := w.host.SSH().Counters()
	if counts.Connections != 1 || counts.SFTPChannels != 1 || counts.ExecChannels != 4 {
		t.Errorf("the host counted %+v", counts)
	}
}

func TestANodeSurvivesPowerCutAndRestart(t *testing.T) {
	w := newFixture(t, sim.Options{Windows: sim.WindowsOptions{RestartDelay: 100 * time.Millisecond}})
	w.mustJoin(t)
	w.await(t, "the node is registered", func(corev1.Node) bool { return true })
	w.giveRange()
	w.await(t, "the node is ready", ready)
	windows := w.host.Windows()
	windows.PowerCut()
	windows.PowerOn()
	w.awaitBoot(t, "power cut")
	windows.Restart()
	w.awaitBoot(t, "restart")
}

// awaitBoot waits until the node is ready and reports the current start of its computer.
func (w *fixture) awaitBoot(t *testing.T, after string) {
	t.Helper()
	boot := w.host.Windows().BootID()
	w.await(t, "the node is ready after "+after, func(n corev1.Node) bool { return ready(n) && n.Status.NodeInfo.BootID == boot })
}
