package selfextract_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"math"
	"testing"

	"github.com/windows-machine-config/wmco/payload/selfextract"
)

func assemble(t testing.TB, stub, compressed string, p selfextract.Program) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := selfextract.Write(&b, bytes.NewReader([]byte(stub)), bytes.NewReader([]byte(compressed)), p); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func find(data []byte) (selfextract.Program, []byte, error) {
	p, r, err := selfextract.Find(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return p, nil, err
	}
	compressed, err := io.ReadAll(r)
	return p, compressed, err
}

func TestFindReturnsAppendedProgram(t *testing.T) {
	want := selfextract.Program{SHA256: sha256.Sum256([]byte("program")), Size: 7}
	for _, stub := range []string{"", "stub", string(assemble(t, "stub", "inner", want))} {
		got, compressed, err := find(assemble(t, stub, "compressed", want))
		if err != nil || got != want || string(compressed) != "compressed" {
			t.Errorf("with a stub of %d bytes: %v, %q, error %v", len(stub), got, compressed, err)
		}
	}
}

func TestTruncatedExecutableIsRejected(t *testing.T) {
	data := assemble(t, "stub", "compressed", selfextract.Program{Size: 7})
	for n := range data {
		if _, _, err := find(data[:n]); !errors.Is(err, selfextract.ErrNoTail) {
			t.Errorf("after %d of %d bytes: error %v, want ErrNoTail", n, len(data), err)
		}
	}
	for n := 1; n <= len("stubcompressed"); n++ { // the beginning is missing: only the length reveals that
		_, compressed, err := find(data[n:])
		if n > len("stub") && !errors.Is(err, selfextract.ErrMalformed) {
			t.Errorf("without the first %d bytes: %q, error %v, want ErrMalformed", n, compressed, err)
		}
	}
}

func TestNegativeSizeIsMalformed(t *testing.T) {
	if _, _, err := find(assemble(t, "stub", "compressed", selfextract.Program{Size: math.MinInt64})); !errors.Is(err, selfextract.ErrMalformed) {
		t.Errorf("error is %v, want ErrMalformed", err)
	}
}

func FuzzFind(f *testing.F) {
	f.Add(assemble(f, "stub", "compressed", selfextract.Program{Size: 7}))
	f.Add(assemble(f, "", "", selfextract.Program{}))
	f.Add([]byte("no trailer at all, but longer than a trailer: it has more than the sixty-odd bytes of one"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, compressed, err := find(data)
		if errors.Is(err, selfextract.ErrNoTail) || errors.Is(err, selfextract.ErrMalformed) {
			return
		}
		if err != nil {
			t.Fatalf("unexpected error: %v", err)
		}
		again := assemble(t, "", string(compressed), p)
		if p.Size < 0 || !bytes.HasSuffix(data, again) {
			t.Errorf("found %v and %d bytes, which are not the end of the input", p, len(compressed))
		}
	})
}
