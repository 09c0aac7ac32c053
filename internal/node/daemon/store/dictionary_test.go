package store_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// withDictionary returns a payload of one content, and another one that is compressed with it.
func withDictionary() *daemontest.Payload {
	c := &daemontest.Payload{Compressed: map[string][]byte{}}
	kubelet := []byte(strings.Repeat("kubelet", 1000))
	c.Add("kubelet.exe", kubelet)
	c.AddWith("kube-proxy.exe", append([]byte("kube-proxy"), kubelet...), c.Contents[0], kubelet)
	return c
}

func TestPresentDictionaryIsNotResent(t *testing.T) {
	w, c := daemontest.NewWindows(t, sim.WindowsOptions{}), withDictionary()
	daemontest.MustSend(t, w, &daemontest.Payload{Contents: c.Contents[:1], Compressed: c.Compressed})
	want := wicdapi.ReceiveResult{Files: 1, Bytes: c.Contents[1].CompressedSize}
	if diff := cmp.Diff(want, daemontest.MustSend(t, w, c)); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	expectStore(t, w, c)
}

func TestAlteredDictionaryIsReplacedBeforeUse(t *testing.T) {
	w, c := daemontest.NewWindows(t, sim.WindowsOptions{}), withDictionary()
	daemontest.MustSend(t, w, &daemontest.Payload{Contents: c.Contents[:1], Compressed: c.Compressed})
	local := w.Disk().Local(desired.Store + `\` + c.Contents[0].SHA256)
	if err := os.WriteFile(local, bytes.Repeat([]byte("x"), int(c.Contents[0].Size)), 0o600); err != nil {
		t.Fatal(err)
	}
	result := daemontest.MustSend(t, w, c)
	if want := (wicdapi.ReceiveResult{Files: 2, Bytes: c.Size(), Altered: []string{c.Contents[0].SHA256}}); !cmp.Equal(want, result) {
		t.Errorf("result %+v, want %+v", result, want)
	}
	expectStore(t, w, c)
}

func TestOnlyCorruptDictionaryIsResent(t *testing.T) {
	w, c := daemontest.NewWindows(t, sim.WindowsOptions{}), withDictionary()
	frame := c.Compressed[c.Contents[0].SHA256]
	intact := bytes.Clone(frame)
	frame[len(frame)/2] ^= 1
	_, err := daemontest.NewWire(w).Send(c)
	daemontest.ExpectCode(t, err, wicdapi.CodeContentAltered)
	c.Compressed[c.Contents[0].SHA256] = intact
	want := wicdapi.ReceiveResult{Files: 2, Bytes: c.Contents[0].CompressedSize}
	if diff := cmp.Diff(want, daemontest.MustSend(t, w, c)); diff != "" {
		t.Errorf("result of the second call (-want +got):\n%s", diff)
	}
	expectStore(t, w, c)
}

func TestWrongDictionaryCountsAsAlteredContent(t *testing.T) {
	w, c := daemontest.NewWindows(t, sim.WindowsOptions{}), withDictionary()
	c.Add("other.exe", []byte(strings.Repeat("another", 1000)))
	c.Contents[1], c.Contents[2] = c.Contents[2], c.Contents[1]
	c.Contents[2].Dictionary = c.Contents[1].SHA256
	_, err := daemontest.NewWire(w).Send(c)
	daemontest.ExpectCode(t, err, wicdapi.CodeContentAltered)
	expectStore(t, w, &daemontest.Payload{Contents: c.Contents[:2]})
}
