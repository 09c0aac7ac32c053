package collect

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/logrotate"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/mask"
	"github.com/windows-machine-config/wmco/internal/shared/supportbundle"
)

// Limits of an archive, in bytes before compression.
const (
	maxTotal = 128 << 20
	maxJSON  = 8 << 20
	maxTail  = 2 << 20
	// minFree is the space that must be free on drive C:, so that an archive does not fill it.
	minFree = 512 << 20
)

// archive is an archive that is being written.
type archive struct {
	zip    *zip.Writer
	masker *mask.Masker
	now    time.Time
	left   int64
	items  []supportbundle.Item
}

// write writes the archive to a temporary file, and renames it when it is complete.
func (c *Collector) write(ctx context.Context, id, file string) (size int64, sum string, err error) {
	if _, _, err := state.ClaimFolder(c.Host, desired.Collections, hostapi.Private); err != nil {
		return 0, "", err
	}
	parts := c.gather(ctx)
	if host, ok := parts[0].value.(hostReport); ok && parts[0].err == nil && host.FreeBytes > 0 && host.FreeBytes < minFree {
		return 0, "", fmt.Errorf("drive C: has %d MB free; %d MB are needed", host.FreeBytes>>20, minFree>>20)
	}
	hash := sha256.New()
	err = c.Host.Disk.Replace(file, func(beside string) error {
		f, err := c.Host.Disk.Create(beside)
		if err != nil {
			return err
		}
		if err := c.fill(ctx, io.MultiWriter(f, hash), id, parts); err != nil {
			return errors.Join(err, f.Close())
		}
		if size, err = f.Seek(0, io.SeekCurrent); err != nil {
			return errors.Join(err, f.Close())
		}
		return c.Host.Disk.Finish(f, beside)
	})
	return size, hex.EncodeToString(hash.Sum(nil)), err
}

// fill writes all files of the archive, and the manifest.
func (c *Collector) fill(ctx context.Context, w io.Writer, id string, parts []part) error {
	a := &archive{zip: zip.NewWriter(w), masker: mask.New(c.secrets()...), now: time.Now().UTC(), left: maxTotal}
	for _, p := range parts {
		if err := a.addJSON(p.name, p.value, p.err); err != nil {
			return err
		}
	}
	for _, log := range c.logs() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := a.addTail(c.Host.Disk, log.path, log.name); err != nil {
			return err
		}
	}
	manifest := supportbundle.Manifest{
		ID: id, Node: c.Record.Node, Time: a.now, Version: c.Record.Desired.Version, Files: a.items, LeftOut: leftOut(),
	}
	if err := a.addJSON(supportbundle.ManifestName, manifest, nil); err != nil {
		return err
	}
	return a.zip.Close()
}

// addJSON adds a value, or the error in its place.
func (a *archive) addJSON(name string, value any, failure error) error {
	item := supportbundle.Item{Name: name}
	if failure != nil {
		item.Error = a.masker.Text(failure.Error())
		a.items = append(a.items, item)
		return nil
	}
	text, err := a.encode(value)
	if err != nil {
		item.Error = err.Error()
		a.items = append(a.items, item)
		return nil
	}
	return a.add(item, text)
}

// encode encodes a value as JSON with masked texts.
func (a *archive) encode(value any) ([]byte, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	if len(raw) > maxJSON {
		return nil, fmt.Errorf("the JSON has %d bytes, the limit is %d", len(raw), maxJSON)
	}
	text, err := a.masker.JSON(raw)
	return append(text, '\n'), err
}

// addTail adds the end of a log. A log that does not exist is left out.
func (a *archive) addTail(d hostapi.Disk, path, name string) error {
	info, err := d.Stat(path)
	if errors.Is(err, os.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return nil
	}
	item := supportbundle.Item{Name: name}
	var text string
	if err == nil {
		item.Cut = info.Size() > maxTail
		text, err = logrotate.ReadEnd(d, path, maxTail)
	}
	if err != nil {
		item.Error = err.Error()
		a.items = append(a.items, item)
		return nil
	}
	return a.add(item, []byte(a.masker.Text(text)))
}

func (a *archive) add(item supportbundle.Item, content []byte) error {
	if int64(len(content)) > a.left {
		item.Error = fmt.Sprintf("left out: the archive would exceed its limit of %d bytes", maxTotal)
		a.items = append(a.items, item)
		return nil
	}
	w, err := a.zip.CreateHeader(&zip.FileHeader{Name: item.Name, Method: zip.Deflate, Modified: a.now})
	if err != nil {
		return err
	}
	if _, err := w.Write(content); err != nil {
		return err
	}
	a.left -= int64(len(content))
	item.Bytes = int64(len(content))
	a.items = append(a.items, item)
	return nil
}

// leftOut lists what is never collected, for users who send an archive to support.
func leftOut() []string {
	return []string{
		"private keys, tokens and credentials of registries and proxies; what looks like one in a log is replaced with " + mask.Mark,
		"values of environment variables",
		"contents of configuration files: files.json says whether they match what the operator declares",
		"arguments of services of other programs, and of the operator's services that differ from their declaration",
		"logs of pods and containers, memory dumps, and the Security event log",
	}
}
