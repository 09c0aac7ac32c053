// Package selfextract defines the format of a self-extracting executable: a stub, then a program compressed by package
// compress, then a trailer of fixed size with the position and the hash of the program. Windows and Linux both ignore data
// after an executable's own end, so the file stays executable.
//
// wicd-setup reads this format on a host, the payload's builder writes it.
package selfextract

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
)

// magic ends every self-extracting executable. Its last digit is the version of the format.
const magic = "WICDTAIL2"

// trailerSize is the length of the trailer: length and size (8 bytes each, little endian), hash, magic.
const trailerSize = 8 + 8 + sha256.Size + int64(len(magic))

// Errors of Find.
var (
	ErrNoTail    = errors.New("this executable has no program at its end")
	ErrMalformed = errors.New("the trailer of this executable does not match its size")
)

// Program describes the embedded program.
type Program struct {
	SHA256 [sha256.Size]byte // of the uncompressed program
	Size   int64             // of the uncompressed program, in bytes
}

// Write writes a self-extracting executable to w: stub, compressed program and trailer.
func Write(w io.Writer, stub, compressed io.Reader, p Program) error {
	if _, err := io.Copy(w, stub); err != nil {
		return err
	}
	length, err := io.Copy(w, compressed)
	if err != nil {
		return err
	}
	trailer := binary.LittleEndian.AppendUint64(nil, uint64(length))
	trailer = binary.LittleEndian.AppendUint64(trailer, uint64(p.Size))
	trailer = append(trailer, p.SHA256[:]...)
	trailer = append(trailer, magic...)
	_, err = w.Write(trailer)
	return err
}

// Find returns the program at the end of the executable r, which has size bytes, and a reader of its compressed bytes. It
// checks the trailer against size only; the caller verifies the program with SHA256.
func Find(r io.ReaderAt, size int64) (Program, io.Reader, error) {
	if size < trailerSize {
		return Program{}, nil, ErrNoTail
	}
	trailer := make([]byte, trailerSize)
	if _, err := r.ReadAt(trailer, size-trailerSize); err != nil && !errors.Is(err, io.EOF) {
		return Program{}, nil, err
	}
	if !bytes.HasSuffix(trailer, []byte(magic)) {
		return Program{}, nil, ErrNoTail
	}
	length := binary.LittleEndian.Uint64(trailer)
	p := Program{Size: int64(binary.LittleEndian.Uint64(trailer[8:]))}
	copy(p.SHA256[:], trailer[16:])
	if length > uint64(size-trailerSize) || p.Size < 0 {
		return Program{}, nil, ErrMalformed
	}
	return p, io.NewSectionReader(r, size-trailerSize-int64(length), int64(length)), nil
}
