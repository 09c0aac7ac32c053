package daemontest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/payload/compress"
)

// Payload is a payload: contents with their compressed bytes.
type Payload struct {
	Files      []desired.PayloadFile
	Contents   []wicdapi.Content
	Compressed map[string][]byte
}

// Add adds a file with a path and content to the payload.
func (c *Payload) Add(path string, content []byte) {
	c.AddWith(path, content, wicdapi.Content{}, nil)
}

// AddWith adds a file that is compressed with another content as its dictionary.
func (c *Payload) AddWith(path string, content []byte, dictionary wicdapi.Content, of []byte) {
	sum := sha256.Sum256(content)
	hash := hex.EncodeToString(sum[:])
	var frame bytes.Buffer
	if err := compress.Compress(&frame, bytes.Clone(content), compress.NewDictionary(bytes.Clone(of)), true); err != nil {
		panic(err)
	}
	c.Files = append(c.Files, desired.PayloadFile{Path: path, SHA256: hash, Size: int64(len(content))})
	c.Contents = append(c.Contents, wicdapi.Content{
		SHA256: hash, Size: int64(len(content)), CompressedSize: int64(frame.Len()), Dictionary: dictionary.SHA256,
	})
	c.Compressed[hash] = frame.Bytes()
}

// NewPayload returns a payload with the programs of a node. All contents but one differ between versions.
func NewPayload(version string) *Payload {
	c := &Payload{Compressed: map[string][]byte{}}
	chance := rand.New(rand.NewPCG(1, uint64(len(version))))
	var runner []byte
	for i, path := range []string{`containerd\containerd.exe`, `kube-log-runner.exe`, `kubelet.exe`, `windows-instance-config-daemon.exe`} {
		content := make([]byte, 20_000+7*i)
		for j := range content {
			content[j] = byte(chance.IntN(64))
		}
		content = append(content, path+version...)
		if i == 2 {
			c.AddWith(path, content, c.Contents[1], runner)
			continue
		}
		c.Add(path, content)
		runner = content
	}
	c.Add(`cni\host-local.exe`, []byte("the same in all versions"))
	return c
}

// Digest returns the digest of the payload's list of files.
func (c *Payload) Digest() string {
	var list bytes.Buffer
	for _, f := range c.Files {
		fmt.Fprintf(&list, "%s  %s\n", f.SHA256, f.Path)
	}
	sum := sha256.Sum256(list.Bytes())
	return hex.EncodeToString(sum[:])
}

// Size returns the number of compressed bytes.
func (c *Payload) Size() (n int64) {
	for _, x := range c.Contents {
		n += x.CompressedSize
	}
	return n
}

func (c *Payload) open(sha256 string, offset int64) (io.ReadCloser, error) {
	b, found := c.Compressed[sha256]
	if !found || offset > int64(len(b)) {
		return nil, fmt.Errorf("content %.12s has no byte %d", sha256, offset)
	}
	return io.NopCloser(bytes.NewReader(b[offset:])), nil
}
