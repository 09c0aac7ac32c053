package store

import (
	"bytes"
	"os"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/payload/compress"
)

// TestDictionaryIsUsedWhileBeingWritten unpacks a chain, in which each content is the dictionary of the next one.
func TestDictionaryIsUsedWhileBeingWritten(t *testing.T) {
	d := hostapi.Disk{Root: t.TempDir()}
	if _, err := d.MakeFolder(desired.Store); err != nil {
		t.Fatal(err)
	}
	var list []wicdapi.Content
	var before []byte
	last, chain := "", [][]byte{}
	for n := range 5 {
		content := append(bytes.Repeat([]byte("kubelet"), 300_000), byte(n))
		var frame bytes.Buffer
		if err := compress.Compress(&frame, bytes.Clone(content), compress.NewDictionary(before), true); err != nil {
			t.Fatal(err)
		}
		c := wicdapi.Content{SHA256: hashOf(content), Size: int64(len(content)), CompressedSize: int64(frame.Len()), Dictionary: last}
		if err := os.WriteFile(d.Local(New(d).part(c.SHA256)), frame.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		list = append(list, c)
		before, last, chain = bytes.Clone(content), c.SHA256, append(chain, content)
	}
	u := newUnpacker(New(d), list)
	for _, c := range list {
		u.start(c)
	}
	if err := u.finish(); err != nil {
		t.Fatal(err)
	}
	for n, content := range chain {
		if b, err := d.Read(u.Path(hashOf(content))); err != nil || !bytes.Equal(b, content) {
			t.Errorf("content %d has %d bytes, error %v", n, len(b), err)
		}
		if d.Exists(u.part(hashOf(content))) {
			t.Errorf("the part of content %d is left", n)
		}
	}
}
