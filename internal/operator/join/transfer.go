package join

import (
	"context"
	"errors"
	"io"
	"time"

	"golang.org/x/time/rate"

	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/payload"
)

// Transfer configures how content is sent to hosts.
type Transfer struct {
	// TakeSlot takes one of the slots that limit how many hosts receive content at the same time; closing the result releases it. It does not block:
	// it returns ErrNoSlot if no slot is free.
	TakeSlot func() (io.Closer, error)
	// Pace, if set, limits the bytes per second.
	Pace *rate.Limiter
}

// transferStep is the step in which the host gets all content that it lacks; each file is verified by its hash.
func (v *Visit) transferStep(t Transfer) step {
	return step{StepTransfer, time.Hour, func(ctx context.Context) error { return v.transfer(ctx, t) }}
}

func (v *Visit) transfer(ctx context.Context, t Transfer) error {
	slot, err := t.TakeSlot()
	if err != nil {
		return err
	}
	v.slot = slot
	files := map[string]payload.File{}
	var content []wicdapi.Content
	for _, f := range v.Content.Order() {
		if _, twice := files[f.SHA256]; twice {
			continue
		}
		files[f.SHA256] = f
		content = append(content, wicdapi.Content{SHA256: f.SHA256, Size: f.Size, CompressedSize: f.Compressed.Size, Dictionary: f.Dictionary})
	}
	open := func(sha256 string, offset int64) (io.ReadCloser, error) {
		blob, err := openBlob(v.Payload, files, sha256, offset)
		if err != nil || t.Pace == nil {
			return blob, err
		}
		return &paced{ReadCloser: blob, ctx: ctx, pace: t.Pace}, nil
	}
	return v.exchange(StepTransfer, func(r wicdapi.Runner) error {
		result, err := wicdapi.Send(ctx, r, v.program(wicdapi.CommandReceive), content, open, v.onStep(StepTransfer))
		if len(result.Altered) > 0 {
			v.Observer.Altered(paths(files, result.Altered))
		}
		return err
	})
}

// paced is a reader of content that observes a limit.
type paced struct {
	io.ReadCloser
	ctx  context.Context // of the transfer
	pace *rate.Limiter
}

// pacedBytes is the maximum size of one read.
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
		return nil, errors.New("the host requested content that was not offered")
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
