package collect

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/supportbundle"
)

type manifest struct {
	Time time.Time `json:"time"`
	// Client is the version of this program.
	Client  string               `json:"client"`
	Hosts   []hostReport         `json:"hosts"`
	Cluster []supportbundle.Item `json:"cluster"`
	LeftOut []string             `json:"leftOut"`
}

type hostReport struct {
	Name  string `json:"name"`
	Node  string `json:"node"`
	Bytes int64  `json:"bytes"`
	Files int    `json:"files"`
	// Error is why there is no archive of the host; Logs means that ends of logs were collected instead.
	Error string `json:"error,omitempty"`
	Logs  bool   `json:"logs,omitempty"`
}

// archive is written to a temporary file next to its name and renamed when it is complete.
type archive struct {
	mu       sync.Mutex
	name     string
	file     *os.File
	zip      *zip.Writer
	manifest manifest
}

func newArchive(name string, now time.Time, version string) (*archive, error) {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*.part") // the name is unpredictable, so no attacker can place a link there
	if err != nil {
		return nil, err
	}
	return &archive{name: name, file: f, zip: zip.NewWriter(f), manifest: manifest{Time: now, Client: version, Hosts: []hostReport{}}}, nil
}

func (a *archive) abandon() {
	if a.file != nil {
		_ = a.file.Close()
		_ = os.Remove(a.file.Name())
	}
}

// finish writes the manifest and renames the archive to its final name.
func (a *archive) finish() (size int64, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	slices.SortFunc(a.manifest.Hosts, func(x, y hostReport) int { return strings.Compare(x.Name, y.Name) })
	a.manifest.LeftOut = []string{"Secrets, which are not read", "pods and logs other than the operator's", "what manifest.json of each host lists"}
	text, err := json.MarshalIndent(a.manifest, "", " ")
	if err != nil {
		return 0, err
	}
	if err := a.writeLocked(supportbundle.ManifestName, append(text, '\n')); err != nil {
		return 0, err
	}
	if err := errors.Join(a.zip.Close(), a.file.Sync()); err != nil {
		return 0, err
	}
	info, err := a.file.Stat()
	if err := errors.Join(err, a.file.Close(), os.Rename(a.file.Name(), a.name)); err != nil {
		return 0, err
	}
	a.file = nil
	return info.Size(), nil
}

func (a *archive) writeLocked(name string, content []byte) error {
	w, err := a.zip.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: a.manifest.Time})
	if err != nil {
		return err
	}
	_, err = w.Write(content)
	return err
}

func (a *archive) add(name string, content []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.writeLocked(name, content)
}

// cluster adds a file with data from the API server, or records why there is none.
func (a *archive) cluster(name string, content []byte, failure error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	item := supportbundle.Item{Name: "cluster/" + name, Bytes: int64(len(content))}
	if failure == nil {
		failure = a.writeLocked(item.Name, content)
	}
	if failure != nil {
		item.Bytes, item.Error = 0, failure.Error()
	}
	a.manifest.Cluster = append(a.manifest.Cluster, item)
}

func (a *archive) report(r hostReport) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.manifest.Hosts = append(a.manifest.Hosts, r)
}

// Limits of a host's archive. WICD stays below them.
const (
	maxArchive  = 256 << 20
	maxUnpacked = 512 << 20
	maxFiles    = 1000
)

// merge adds the files of a host's archive below a folder without recompressing them. The host may be hostile: names must be plain, and sizes
// are limited.
func (a *archive) merge(folder string, from io.ReaderAt, size int64) (files int, err error) {
	r, err := zip.NewReader(from, size)
	if err != nil {
		return 0, fmt.Errorf("reading the archive of the host: %w", err)
	}
	if len(r.File) > maxFiles {
		return 0, fmt.Errorf("the archive of the host has %d files; at most %d are allowed", len(r.File), maxFiles)
	}
	var unpacked uint64
	for _, f := range r.File {
		if unpacked += f.UncompressedSize64; unpacked > maxUnpacked {
			return 0, fmt.Errorf("the archive of the host has more than %d MB unpacked", maxUnpacked>>20)
		}
		if !isPlain(f.Name) || f.Mode()&os.ModeType != 0 {
			return 0, fmt.Errorf("the archive of the host has unexpected file %.64q", f.Name)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range r.File {
		raw, err := f.OpenRaw()
		if err != nil {
			return files, fmt.Errorf("reading %s: %w", f.Name, err)
		}
		header := zip.FileHeader{
			Name: folder + f.Name, Method: f.Method, Modified: f.Modified, CRC32: f.CRC32, CompressedSize64: f.CompressedSize64,
			UncompressedSize64: f.UncompressedSize64,
		}
		w, err := a.zip.CreateRaw(&header)
		if err != nil {
			return files, err
		}
		if _, err := io.Copy(w, raw); err != nil {
			return files, err
		}
		files++
	}
	return files, nil
}

// isPlain reports whether a name has the form that WICD uses.
func isPlain(name string) bool {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/"
	return name != "" && len(name) <= 200 && strings.Trim(name, plain) == "" && path.Clean("/"+name) == "/"+name && !strings.Contains(name, "..")
}
