package compress

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// random returns bytes that do not compress.
func random(seed uint64, n int) []byte {
	b := make([]byte, n)
	source := rand.NewChaCha8([32]byte{byte(seed)})
	_, _ = source.Read(b)
	return b
}

func mustCompress(t *testing.T, program []byte, d Dictionary, fast bool) []byte {
	t.Helper()
	var frame bytes.Buffer
	if err := Compress(&frame, bytes.Clone(program), d, fast); err != nil {
		t.Fatal(err)
	}
	return frame.Bytes()
}

func decompress(frame []byte, size int, d Dictionary) ([]byte, error) {
	return Decompress(frame, int64(size), d)
}

func dictionary(program []byte) Dictionary { return NewDictionary(bytes.Clone(program)) }

func TestCompressionRoundTrip(t *testing.T) {
	for _, size := range []int{1, 9, 1000, 5 << 20} {
		for _, fast := range []bool{false, true} {
			for name, d := range map[string]Dictionary{"none": {}, "short": dictionary([]byte("abc")), "related": dictionary(random(1, size))} {
				t.Run(fmt.Sprintf("%d bytes, fast %t, dictionary %s", size, fast, name), func(t *testing.T) {
					program := random(1, size)
					frame := mustCompress(t, program, d, fast)
					back, err := decompress(frame, size, d)
					if err != nil || !bytes.Equal(back, program) {
						t.Fatalf("decompressed %d bytes, error %v", len(back), err)
					}
					if name == "related" && size >= 1000 && !fast && len(frame) > 60+size/1000 {
						t.Errorf("the frame has %d bytes, although the dictionary has all %d", len(frame), size)
					}
				})
			}
		}
	}
}

func TestDistantDictionaryMatchIsFound(t *testing.T) {
	zeros := make([]byte, 30<<20)
	d := NewDictionary(append(random(1, 1<<20), zeros...))
	program := append(zeros, random(1, 1<<20)...)
	frame := mustCompress(t, program, d, false)
	if len(frame) > 100<<10 {
		t.Errorf("the frame has %d bytes", len(frame))
	}
	if back, err := decompress(frame, len(program), d); err != nil || !bytes.Equal(back, program) {
		t.Errorf("decompressed %d bytes, error %v", len(back), err)
	}
}

func TestWrongDictionaryIsDetected(t *testing.T) {
	program := random(1, 10_000)
	frame := mustCompress(t, program, dictionary(program), false)
	for name, d := range map[string]Dictionary{"none": {}, "shorter": dictionary(program[:5000])} {
		if _, err := decompress(frame, len(program), d); !errors.Is(err, ErrDamaged) {
			t.Errorf("dictionary %s: error is %v", name, err)
		}
	}
	// Only the hash can detect other bytes of the right size.
	if back, err := decompress(frame, len(program), dictionary(random(2, 10_000))); err == nil && bytes.Equal(back, program) {
		t.Error("the program was restored with another dictionary")
	}
}

func TestDecompressLimitsSize(t *testing.T) {
	bomb := mustCompress(t, make([]byte, 32<<20), Dictionary{}, false)
	streamed := stream(t, make([]byte, 32<<20))
	for name, test := range map[string]struct {
		frame []byte
		size  int
	}{
		"bomb": {bomb, 1000}, "bomb of size 0": {bomb, 0}, "bomb that hides its size": {streamed, 1000}, "two frames": {append(bomb, bomb...), 32 << 20},
		"too short": {bomb, 32<<20 + 1}, "no frame": {[]byte("no frame"), 8}, "empty": {nil, 8}, "cut": {bomb[:len(bomb)-1], 32 << 20},
	} {
		allocated := allocates(func() {
			if _, err := decompress(test.frame, test.size, Dictionary{}); !errors.Is(err, ErrDamaged) {
				t.Errorf("%s: error is %v", name, err)
			}
		})
		if most := uint64(test.size + len(test.frame) + 4<<20); allocated > most {
			t.Errorf("%s: %d bytes were allocated, at most %d are expected", name, allocated, most)
		}
	}
}

// allocates returns the number of bytes that a function allocates.
func allocates(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// stream returns a frame whose header does not contain the size of the content.
func stream(t *testing.T, content []byte) []byte {
	t.Helper()
	var frame bytes.Buffer
	w, err := zstd.NewWriter(&frame, zstd.WithWindowSize(1<<20))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(w, bytes.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return frame.Bytes()
}

func TestOversizedInputIsRejected(t *testing.T) {
	for _, size := range []int64{MaxSize + 1, -1} {
		if _, err := Decompress(nil, size, Dictionary{}); !errors.Is(err, ErrTooLarge) {
			t.Errorf("size %d: error is %v", size, err)
		}
	}
	large := make([]byte, MaxSize+1)
	if _, err := Decompress(large, 1, Dictionary{}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("frame: error is %v", err)
	}
	if err := Compress(io.Discard, large, Dictionary{}, true); !errors.Is(err, ErrTooLarge) {
		t.Errorf("program: error is %v", err)
	}
}
