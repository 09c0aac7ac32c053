package archive_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/windows-machine-config/wmco/release/archive"
)

func TestArchivePreservesFiles(t *testing.T) {
	var out bytes.Buffer
	if err := archive.Write(&out, []archive.File{archive.Bytes("b", []byte("second")), archive.Bytes("a/c", nil)}); err != nil {
		t.Fatal(err)
	}
	in := tar.NewReader(&out)
	for _, want := range []struct{ name, content string }{{"b", "second"}, {"a/c", ""}} {
		h, err := in.Next()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err != nil || h.Name != want.name || string(content) != want.content || h.Mode != 0o644 || h.Uid != 0 || h.ModTime.Unix() != 0 {
			t.Errorf("the file is %+v with %q (%v), want %+v", h, content, err, want)
		}
	}
	if _, err := in.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last file: %v", err)
	}
}

func TestWrongFileSizeIsAnError(t *testing.T) {
	for _, size := range []int64{2, 4} {
		f := archive.Bytes("f", []byte("abc"))
		f.Size = size
		if err := archive.Write(io.Discard, []archive.File{f}); err == nil {
			t.Errorf("3 bytes are accepted for %d", size)
		}
	}
}
