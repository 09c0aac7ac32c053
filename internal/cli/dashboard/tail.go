package dashboard

import (
	"errors"
	"io"
)

// lastBytes reads to the end and returns the last bytes. It stops after 100 times limit: a kubelet that ignores the range sends the whole file,
// which may be large.
func lastBytes(r io.Reader, limit int) ([]byte, error) {
	var kept []byte
	buffer := make([]byte, 32<<10)
	for read := 0; read < 100*limit; {
		n, err := r.Read(buffer)
		read += n
		kept = append(kept, buffer[:n]...)
		if len(kept) > limit {
			kept = append([]byte(nil), kept[len(kept)-limit:]...)
		}
		if errors.Is(err, io.EOF) {
			return kept, nil
		}
		if err != nil {
			return kept, err
		}
	}
	return kept, nil
}
