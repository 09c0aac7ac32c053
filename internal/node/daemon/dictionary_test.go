package daemon_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// withDictionary returns a cargo of one content, and another one that is compressed with it.
func withDictionary() *cargo {
	c := &cargo{compressed: map[string][]byte{}}
	kubelet := []byte(strings.Repeat("kubelet", 1000))
	c.add("kubelet.exe", kubelet)
	c.addWith("kube-proxy.exe", append([]byte("kube-proxy"), kubelet...), c.contents[0], kubelet)
	return c
}

func TestPresentDictionaryIsNotResent(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{}), withDictionary()
	mustSend(t, w, &cargo{contents: c.contents[:1], compressed: c.compressed})
	want := wicdapi.ReceiveResult{Files: 1, Bytes: c.contents[1].CompressedSize}
	if diff := cmp.Diff(want, mustSend(t, w, c)); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	expectStore(t, w, c)
}

func TestAnAlteredDictionaryIsReplacedBeforeItIsUsed(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{}), withDictionary()
	mustSend(t, w, &cargo{contents: c.contents[:1], compressed: c.compressed})
	local := w.Disk().Local(desired.Store + `\` + c.contents[0].SHA256)
	if err := os.WriteFile(local, bytes.Repeat([]byte("x"), int(c.contents[0].Size)), 0o600); err != nil {
		t.Fatal(err)
	}
	result := mustSend(t, w, c)
	if want := (wicdapi.ReceiveResult{Files: 2, Bytes: c.size(), Altered: []string{c.contents[0].SHA256}}); !cmp.Equal(want, result) {
		t.Errorf("result %+v, want %+v", result, want)
	}
	expectStore(t, w, c)
}

func TestOnlyCorruptDictionaryIsResent(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{}), withDictionary()
	frame := c.compressed[c.contents[0].SHA256]
	intact := bytes.Clone(frame)
	frame[len(frame)/2] ^= 1
	_, err := newWire(w).send(c)
	expectCode(t, err, wicdapi.CodeContentAltered)
	c.compressed[c.contents[0].SHA256] = intact
	want := wicdapi.ReceiveResult{Files: 2, Bytes: c.contents[0].CompressedSize}
	if diff := cmp.Diff(want, mustSend(t, w, c)); diff != "" {
		t.Errorf("result of the second time (-want +got):\n%s", diff)
	}
	expectStore(t, w, c)
}

func TestADictionaryThatIsNotTheRightOneIsAnAlteredContent(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{}), withDictionary()
	c.add("other.exe", []byte(strings.Repeat("another", 1000)))
	c.contents[1], c.contents[2] = c.contents[2], c.contents[1]
	c.contents[2].Dictionary = c.contents[1].SHA256
	_, err := newWire(w).send(c)
	expectCode(t, err, wicdapi.CodeContentAltered)
	expectStore(t, w, &cargo{contents: c.contents[:2]})
}
