package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/payload/compress"
)

// Receive receives content into the store: it reads the list of what the host must have, responds with what is missing, and reads exactly
// that from the body. What arrived before a connection was lost is not requested again; nor is the running program, which arrived before
// there was a store.
func Receive(ctx context.Context, s *wicdapi.Session, h hostapi.Host, program func() (io.ReadCloser, error)) (wicdapi.ReceiveResult, error) {
	var request wicdapi.ReceiveRequest
	if err := s.Request(&request); err != nil {
		return wicdapi.ReceiveResult{}, err
	}
	list, err := distinct(request.Content)
	if err != nil {
		return wicdapi.ReceiveResult{}, err
	}
	release, err := state.LockCommands(ctx, h)
	if err != nil {
		return wicdapi.ReceiveResult{}, err
	}
	defer release()
	if _, err := h.Disk.MakeFolder(desired.Store); err != nil {
		return wicdapi.ReceiveResult{}, fmt.Errorf("creating %s: %w", desired.Store, err)
	}
	r := &receiving{session: s, store: New(h.Disk)}
	if err := r.store.adopt(list, program); err != nil {
		return wicdapi.ReceiveResult{}, fmt.Errorf("copying the running program into the store: %w", err)
	}
	if err := r.plan(ctx, list); err != nil {
		return wicdapi.ReceiveResult{}, err
	}
	if err := r.checkSpace(ctx, h.System); err != nil {
		return wicdapi.ReceiveResult{}, err
	}
	if err := s.Missing(r.missing); err != nil {
		return wicdapi.ReceiveResult{}, fmt.Errorf("reporting the missing content: %w", err)
	}
	err = r.receiveAll(ctx)
	return r.result, err
}

// distinct returns the list without duplicates. It rejects invalid entries, and those that could not be decompressed.
func distinct(list []wicdapi.Content) ([]wicdapi.Content, error) {
	seen := map[string]bool{}
	var out []wicdapi.Content
	for i, c := range list {
		if !IsHash(c.SHA256) || min(c.Size, c.CompressedSize) < 0 || max(c.Size, c.CompressedSize) > compress.MaxSize {
			return nil, &wicdapi.Error{Code: wicdapi.CodeRequestInvalid, Message: fmt.Sprintf(
				"content[%d] is sha256 %q, size %d, compressedSize %d; 64 lower-case hexadecimal digits and sizes from 0 to %d are allowed",
				i, c.SHA256, c.Size, c.CompressedSize, compress.MaxSize)}
		}
		if c.Dictionary != "" && !seen[c.Dictionary] {
			return nil, &wicdapi.Error{Code: wicdapi.CodeRequestInvalid, Message: fmt.Sprintf(
				"content[%d] (sha256 %s) has dictionary %q; the sha256 of a content before it in the list is allowed", i, c.SHA256, c.Dictionary)}
		}
		if !seen[c.SHA256] {
			seen[c.SHA256] = true
			out = append(out, c)
		}
	}
	return out, nil
}

// receiving is a receive in progress.
type receiving struct {
	session *wicdapi.Session
	store   Store
	// wanted are the contents that must be received, missing the same as reported to the operator.
	wanted  []wicdapi.Content
	missing []wicdapi.Missing
	// total is the number of bytes that must be received.
	total    int64
	reported time.Time
	result   wicdapi.ReceiveResult
}

// progressInterval is the minimum time between progress reports.
const progressInterval = 200 * time.Millisecond

// plan determines what is missing, and from which byte on.
func (r *receiving) plan(ctx context.Context, list []wicdapi.Content) error {
	_ = r.session.Step(wicdapi.Step{Name: "verifying the store"})
	have, altered, err := r.store.Verify(ctx, list)
	if err != nil {
		return err
	}
	r.result.Altered = altered
	for _, c := range list {
		if have[c.SHA256] {
			if err := r.store.disk.Remove(r.store.part(c.SHA256)); err != nil { // left by an interruption after the last step
				return fmt.Errorf("removing the partial file of content %.12s: %w", c.SHA256, err)
			}
			continue
		}
		offset, err := r.store.received(c)
		if err != nil {
			return fmt.Errorf("checking the partial file of content %.12s: %w", c.SHA256, err)
		}
		r.wanted = append(r.wanted, c)
		r.missing = append(r.missing, wicdapi.Missing{SHA256: c.SHA256, Offset: offset})
		r.total += c.CompressedSize - offset
	}
	return nil
}

// spareBytes stay free on the drive, for Windows and for what the services write.
const spareBytes = 512 << 20

// checkSpace refuses content that does not fit on the drive.
func (r *receiving) checkSpace(ctx context.Context, s hostapi.System) error {
	if len(r.wanted) == 0 {
		return nil
	}
	facts, err := s.Facts(ctx)
	if err != nil {
		return fmt.Errorf("reading the free space of drive C: %w", err)
	}
	need := uint64(r.total)
	for _, c := range r.wanted {
		need += uint64(c.Size)
	}
	if need+spareBytes > facts.FreeBytes {
		return fmt.Errorf("drive C: has %d MB free, the missing content needs %d MB and %d MB must stay free; free up space, and the transfer continues",
			facts.FreeBytes>>20, need>>20, spareBytes>>20)
	}
	return nil
}

// receiveAll receives the contents in order, and unpacks previous ones meanwhile. An altered content does not stop the others.
func (r *receiving) receiveAll(ctx context.Context) error {
	u := newUnpacker(r.store, r.wanted)
	var cut error
	for i, c := range r.wanted {
		if cut = r.receiveContent(ctx, c, r.missing[i].Offset); cut != nil {
			break
		}
		r.result.Files++
		u.start(c)
	}
	if cut == nil && len(r.wanted) > 0 {
		_ = r.session.Step(wicdapi.Step{Name: "unpacking", Bytes: r.total, Total: r.total})
	}
	return errors.Join(u.finish(), cut)
}

// receiveContent receives the rest of one content. Each piece is written as it arrives, so that it counts after an interruption.
func (r *receiving) receiveContent(ctx context.Context, c wicdapi.Content, offset int64) (err error) {
	part, size, err := r.store.disk.Append(r.store.part(c.SHA256))
	if err != nil {
		return fmt.Errorf("opening the partial file of content %.12s: %w", c.SHA256, err)
	}
	defer func() { err = errors.Join(err, part.Close()) }()
	if size != offset {
		return fmt.Errorf("the partial file of content %.12s has %d bytes, want %d", c.SHA256, size, offset)
	}
	buffer := make([]byte, 256<<10)
	for at := offset; at < c.CompressedSize; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := r.session.Body().Read(buffer[:min(int64(len(buffer)), c.CompressedSize-at)])
		if n > 0 {
			if err := r.store.disk.Allow("write", r.store.part(c.SHA256)); err != nil {
				return err
			}
			if _, err := part.Write(buffer[:n]); err != nil {
				return fmt.Errorf("writing content %.12s: %w", c.SHA256, err)
			}
			at += int64(n)
			r.progress(c, int64(n))
		}
		if err == io.EOF && at < c.CompressedSize {
			return &wicdapi.Error{Code: wicdapi.CodeInputEnded, Message: fmt.Sprintf(
				"receiving content %.12s: the input ended at byte %d of %d", c.SHA256, at, c.CompressedSize)}
		}
		if err != nil && err != io.EOF {
			return fmt.Errorf("receiving content %.12s at byte %d of %d: %w", c.SHA256, at, c.CompressedSize, err)
		}
	}
	return nil
}

func (r *receiving) progress(c wicdapi.Content, n int64) {
	r.result.Bytes += n
	if now := time.Now(); now.Sub(r.reported) >= progressInterval {
		r.reported = now
		_ = r.session.Step(wicdapi.Step{Name: fmt.Sprintf("receiving %.12s", c.SHA256), Bytes: r.result.Bytes, Total: r.total})
	}
}
