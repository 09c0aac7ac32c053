// Package compress defines the format in which programs are sent to hosts: one zstd frame of the program, in which
// addresses are replaced by numbers that related programs have in common. A related program that the host already has can
// be the frame's dictionary, so that common content is not sent again. Measured for the kubelet, replacing addresses saves
// 28 %, and containerd as dictionary 20 %.
//
// Everything is done in memory. A host needs as much memory as the program, its dictionary and the frame are large.
package compress

import (
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// MaxSize limits a program, a dictionary and a frame in bytes. The largest program, the kubelet, has 84 MB.
const MaxSize = 256 << 20

// Format is the version of the format. It changes with the bytes that a program is compressed to or decompressed from, so
// that nothing that an earlier build stored is used.
const Format = 1

// dictionaryID is in the header of each frame with a dictionary. The manifest identifies the dictionary.
const dictionaryID = 1

// Errors of Decompress.
var (
	// ErrDamaged means that the bytes are not such a frame, or need another dictionary.
	ErrDamaged = errors.New("decompressing")
	// ErrTooLarge means a program, dictionary or frame of more than MaxSize, or a negative size.
	ErrTooLarge = fmt.Errorf("more than %d MiB", MaxSize>>20)
)

// Dictionary is a program that others are compressed with.
type Dictionary struct{ filtered []byte }

// NewDictionary makes a program a dictionary. It changes the bytes of program, which must not be used afterwards.
func NewDictionary(program []byte) Dictionary {
	apply(program)
	return Dictionary{program}
}

// Compress writes a program as a frame. It changes the bytes of program. The zero Dictionary means none. With fast, it
// takes a tenth of the time and writes a fifth more bytes.
func Compress(w io.Writer, program []byte, d Dictionary, fast bool) error {
	if len(program) > MaxSize || len(d.filtered) > MaxSize {
		return ErrTooLarge
	}
	level := zstd.SpeedBestCompression
	if fast {
		level = zstd.SpeedFastest
	}
	options := []zstd.EOption{zstd.WithEncoderLevel(level), zstd.WithWindowSize(window(len(d.filtered) + len(program))), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true)}
	if len(d.filtered) > 0 {
		options = append(options, zstd.WithEncoderDictRaw(dictionaryID, d.filtered))
	}
	encoder, err := zstd.NewWriter(nil, options...)
	if err != nil {
		return err
	}
	defer encoder.Close() // encoder has no writer of its own
	apply(program)
	_, err = w.Write(encoder.EncodeAll(program, nil))
	return err
}

// window returns the window size with which the encoder can refer back over size bytes: the dictionary and the program. It is a power
// of two, as zstd requires, and the encoder allocates and clears as much memory.
func window(size int) int {
	w := zstd.MinWindowSize
	for w < size && w < MaxSize {
		w *= 2
	}
	return w
}

// Decompress returns the program of size bytes that was compressed to a frame. Whatever the frame contains, it takes no more
// memory than that. The caller verifies the program's hash.
func Decompress(frame []byte, size int64, d Dictionary) ([]byte, error) {
	if len(frame) > MaxSize || size > MaxSize || size < 0 {
		return nil, ErrTooLarge
	}
	options := []zstd.DOption{zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(MaxSize), zstd.WithDecodeAllCapLimit(true)}
	if len(d.filtered) > 0 {
		options = append(options, zstd.WithDecoderDictRaw(dictionaryID, d.filtered))
	}
	decoder, err := zstd.NewReader(nil, options...)
	if err != nil {
		return nil, err
	}
	defer decoder.Close()
	program, err := decoder.DecodeAll(frame, make([]byte, 0, size))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if int64(len(program)) != size {
		return nil, fmt.Errorf("%w: it decompresses to %d bytes, want %d", ErrDamaged, len(program), size)
	}
	undo(program)
	return program, nil
}
