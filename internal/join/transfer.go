package join

import (
	"context"
	"errors"
	"io"

	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/payload"
)

// Transfer is how content is sent to a host.
type Transfer struct {
	// Slots bounds how many hosts are sent content at the same time.
	Slots Slots
	// Pace, where it is set, is asked before bytes of content are sent, and returns when they may be.
	Pace Pacer
}

// Slots are places for hosts that work at the same time.
type Slots interface {
	// Take takes one of the places; closing it gives it back. It does not wait: without a free place it returns ErrNoSlot.
	Take() (io.Closer, error)
}

// Pacer bounds how fast content is sent.
type Pacer interface {
	// WaitN returns when so many bytes may be sent.
	WaitN(ctx context.Context, bytes int) error
}

func (v *Visit) transfer(ctx context.Context, t Transfer) error {
	wicd, err := v.wicd()
	if err != nil {
		return err
	}
	slot, err := t.Slots.Take()
	if err != nil {
		return err
	}
	v.slot = slot
	files := map[string]payload.File{}
	var content []agent.Content
	for _, f := range v.Content.Order() {
		if _, twice := files[f.SHA256]; twice {
			continue
		}
		files[f.SHA256] = f
		content = append(content, agent.Content{SHA256: f.SHA256, Size: f.Size, CompressedSize: f.Compressed.Size, Dictionary: f.Dictionary})
	}
	open := func(sha256 string, offset int64) (io.ReadCloser, error) {
		blob, err := openBlob(v.Payload, files, sha256, offset)
		if err != nil || t.Pace == nil {
			return blob, err
		}
		return &paced{ReadCloser: blob, ctx: ctx, pace: t.Pace}, nil
	}
	return v.converse(StepTransfer, func(r agent.Runner) error {
		result, err := agent.Send(ctx, r, v.program(wicd, agent.CommandReceive), content, open, v.onStep(StepTransfer))
		if len(result.Altered) > 0 {
			v.Observer.Altered(paths(files, result.Altered))
		}
		return err
	})
}

// paced is content that is sent no faster than it may be.
type paced struct {
	io.ReadCloser
	ctx  context.Context // of the transfer
	pace Pacer
}

// pacedBytes is how much is read at a time.
const pacedBytes = 64 << 10

// Read implements io.Reader.
func (p *paced) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b[:min(len(b), pacedBytes)])
	if n > 0 {
		if late := p.pace.WaitN(p.ctx, n); late != nil {
			return 0, late
		}
	}
	return n, err
}

func paths(files map[string]payload.File, hashes []string) []string {
	var list []string
	for _, sha256 := range hashes {
		list = append(list, files[sha256].Path)
	}
	return list
}

func openBlob(p *payload.Payload, files map[string]payload.File, sha256 string, offset int64) (io.ReadCloser, error) {
	f, known := files[sha256]
	if !known {
		return nil, errors.New("the host asks for content that was not offered")
	}
	blob, err := p.Blob(f)
	if err != nil {
		return nil, err
	}
	if _, err := blob.Seek(offset, io.SeekStart); err != nil {
		return nil, errors.Join(err, blob.Close())
	}
	return blob, nil
}
