package sim_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sshserver"
	"github.com/windows-machine-config/wmco/payload/compress"
	"github.com/windows-machine-config/wmco/payload/selfextract"
)

// waitTimeout is the timeout of every wait.
const waitTimeout = time.Minute

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
	signer, _, err := sshserver.NewKey()
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
		User: "Administrator", Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(), Timeout: waitTimeout,
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

func TestMissingProgramFailsAsInCmd(t *testing.T) {
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

func TestSetupInstallsWICD(t *testing.T) {
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

func TestTruncatedSetupReportsError(t *testing.T) {
	key := mustKey(t)
	o := mustDial(t, mustStart(t, key, sim.Options{}), key)
	whole := mustPack(t, []byte("the bytes of WICD"))
	damaged := bytes.Clone(whole)
	damaged[len("stub")+8] ^= 1
	for name, content := range map[string][]byte{"cut-setup.exe": whole[:len(whole)-5], "damaged-setup.exe": damaged} {
		o.mustUpload(t, name, content)
		err := wicdapi.Call(t.Context(), o, `.\\`+name+` facts`, nil, nil, nil)
		if failed := wicdapi.Failed(err); failed == nil || failed.Code != wicdapi.CodeSetupFailed {
			t.Errorf("%s: %v, want SetupFailed", name, err)
		}
	}
}

func TestLoginUsesKeysFile(t *testing.T) {
	first, second := mustKey(t), mustKey(t)
	h := mustStart(t, first, sim.Options{})
	login := func(key ssh.Signer) error {
		client, err := ssh.Dial("tcp", h.Addr(), &ssh.ClientConfig{
			User: "administrator", Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(), Timeout: waitTimeout,
		})
		if err == nil {
			client.Close()
		}
		return err
	}
	expect := func(when string, old, new bool) {
		t.Helper()
		if errOld, errNew := login(first), login(second); (errOld == nil) != old || (errNew == nil) != new {
			t.Errorf("%s: the first key %v, the second %v", when, errOld, errNew)
		}
	}
	expect("at first", true, false)
	const keys = `C:\ProgramData\ssh\administrators_authorized_keys`
	content, err := h.Windows().Disk().Read(keys)
	if err != nil {
		t.Fatal(err)
	}
	added := string(ssh.MarshalAuthorizedKey(second.PublicKey()))
	for when, content := range map[string]string{"both": "# comment\r\n" + string(content) + added, "the second": added} {
		if _, err := h.Windows().Disk().WriteFile(keys, content); err != nil {
			t.Fatal(err)
		}
		expect(when, when == "both", true)
	}
}
