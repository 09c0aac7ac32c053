package win

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/windows-machine-config/wmco/internal/testing/sim/contract"
)

func TestImagesKeepTheContract(t *testing.T) {
	const good = "registry.test/good:1"
	contract.Images(t, func(t *testing.T) contract.ImagesFixture {
		r := &imageServer{t: t, good: []byte(good)}
		return contract.ImagesFixture{Runtime: containerRuntime{pipe: testPipe}, Good: good, Absent: "registry.test/absent:1", Stop: servePipe(t, r)}
	})
}

// imageServer is a container runtime that can pull one image.
type imageServer struct {
	t    *testing.T
	good []byte

	mu   sync.Mutex
	have bool
}

func (s *imageServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Error(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	isGood := bytes.Contains(body, s.good)
	w.Header().Set("Content-Type", "application/grpc")
	answer := []byte{0, 0, 0, 0, 0}
	switch r.URL.Path {
	case "/runtime.v1.ImageService/ImageStatus":
		if s.have && isGood {
			answer = []byte{0, 0, 0, 0, 6, 0x0a, 4, 0x0a, 2, 'i', 'd'}
		}
	case "/runtime.v1.ImageService/PullImage":
		if !isGood {
			w.Header().Set("Grpc-Status", "5")
			w.Header().Set("Grpc-Message", "not found")
			return
		}
		s.have = true
		answer = []byte{0, 0, 0, 0, 4, 0x0a, 2, 'i', 'd'}
	case "/runtime.v1.RuntimeService/Status":
		answer = append([]byte{0, 0, 0, 0, 18, 0x0a, 16, 0x0a, 14, 0x0a, 12}, "NetworkReady"...)
	default:
		s.t.Errorf("the call is %s", r.URL)
	}
	w.Header().Set("Trailer", "Grpc-Status")
	_, _ = w.Write(answer)
	w.Header().Set("Grpc-Status", "0")
}
