package payload

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Groups of files. A host gets the group base and those of its cluster's minor version of Kubernetes, its platform and network.
const (
	Base    = "base"
	AWS     = "aws"
	Azure   = "azure"
	Flannel = "flannel"

	kubernetes = "kubernetes-"
)

// Kubernetes returns the group of the programs of one minor version of Kubernetes, as in kubernetes-1.36 for 1.36.
func Kubernetes(minor string) string { return kubernetes + minor }

// Manifest is the list of files for hosts.
type Manifest struct {
	// Digest identifies the content: the SHA-256, in hexadecimal, over one line "<sha256>  <path>\n" for each file, sorted by path.
	Digest string `json:"digest"`
	// Files are sorted by path, and those of one path by group: each minor version of Kubernetes has a kubelet.exe.
	Files []File `json:"files"`
	// Setup is wicd-setup, the self-extracting executable with WICD. It is not part of Files and Digest; zero without WICD.
	Setup File `json:"setup,omitzero"`
}

// File is one file of a payload.
type File struct {
	// Path is relative to C:\k\versions\<digest>, in lower case, with forward slashes, as in "containerd/containerd.exe".
	Path string `json:"path"`
	// Component is the name of the file's component, such as "kubelet".
	Component string `json:"component"`
	// Version is the component's own version, as in "v1.36.3".
	Version string `json:"version"`
	// License is an SPDX identifier.
	License string `json:"license,omitempty"`
	// Group selects the hosts that get the file.
	Group string `json:"group"`
	// SHA256 (in hexadecimal) and Size (in bytes) are those of the file on the host.
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
	// Compressed is the transferred form, which package compress describes.
	Compressed Blob `json:"compressed,omitzero"`
	// Dictionary is the SHA256 of the file that is required to decompress this one; empty for none. That file is in the same
	// group or in group base, so that each host that gets this file also gets its dictionary.
	Dictionary string `json:"dictionary,omitempty"`
}

// Blob has the SHA-256 in hexadecimal and the number of compressed bytes.
type Blob struct {
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// New returns the manifest of files, sorted and with its digest.
func New(files []File, setup File) Manifest {
	files = slices.Clone(files)
	slices.SortFunc(files, File.compare)
	return Manifest{Digest: digest(files), Files: files, Setup: setup}
}

// Select returns the manifest of the given groups, with its own digest.
func (m Manifest) Select(groups ...string) Manifest {
	var files []File
	for _, f := range m.Files {
		if slices.Contains(groups, f.Group) {
			files = append(files, f)
		}
	}
	return New(files, m.Setup)
}

// Minors returns the minor versions of Kubernetes whose programs the manifest has, oldest first, as in 1.9, 1.36.
func (m Manifest) Minors() []string {
	var minors []string
	for _, f := range m.Files {
		if minor, ok := strings.CutPrefix(f.Group, kubernetes); ok && !slices.Contains(minors, minor) {
			minors = append(minors, minor)
		}
	}
	slices.SortFunc(minors, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) })
	return minors
}

// Encode returns the content of payload.json; equal manifests give equal bytes.
func (m Manifest) Encode() ([]byte, error) {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding the manifest: %w", err)
	}
	return append(data, '\n'), nil
}

// Parse decodes and validates a manifest. The error names the file and the field.
func Parse(data []byte) (Manifest, error) {
	var m Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return Manifest{}, fmt.Errorf("decoding: %w", err)
	}
	if err := m.Validate(); err != nil {
		return Manifest{}, err
	}
	return m, nil
}

// Validate returns an error for a missing or malformed field, a duplicate path or one that could leave its folder, and a digest
// that does not match the files.
func (m Manifest) Validate() error {
	for i, f := range m.Files {
		if err := f.validate(); err != nil {
			return fmt.Errorf("files[%d]: %w", i, err)
		}
		if err := f.Compressed.validate(); err != nil {
			return fmt.Errorf("files[%d] (%s): compressed.%w", i, f.Path, err)
		}
		if i > 0 && m.Files[i-1].compare(f) >= 0 {
			return fmt.Errorf("files[%d]: path %q (group %s) must sort after %q (group %s)", i, f.Path, f.Group, m.Files[i-1].Path, m.Files[i-1].Group)
		}
	}
	if want := digest(m.Files); m.Digest != want {
		return fmt.Errorf("digest is %q, its files have %q", m.Digest, want)
	}
	if err := m.validateDictionaries(); err != nil {
		return err
	}
	return m.validateSetup()
}

// validateDictionaries returns an error for a file that a host could not decompress, and for a content with two
// compressed forms.
func (m Manifest) validateDictionaries() error {
	forms := map[string]File{}
	for i, f := range m.Files {
		if before, twice := forms[f.SHA256]; twice && (before.Compressed != f.Compressed || before.Dictionary != f.Dictionary) {
			return fmt.Errorf("files[%d] (%s): compressed or dictionary differs from that of %s, which has the same sha256", i, f.Path, before.Path)
		}
		forms[f.SHA256] = f
	}
	if sent := m.Order(); len(sent) < len(m.Files) {
		i := slices.IndexFunc(m.Files, func(f File) bool { return !slices.Contains(sent, f) })
		f := m.Files[i]
		return fmt.Errorf("files[%d] (%s): dictionary is %q, must be the sha256 of another file of group %s or %s, which does not need this one",
			i, f.Path, f.Dictionary, f.Group, Base)
	}
	return nil
}

// first returns the files that are sent first: those that a host needs first, and that take longest to unpack while others arrive.
// The others follow in the order of their paths.
func first() []string {
	return []string{WICD, "containerd/containerd.exe", "kubelet.exe", "kube-proxy.exe"}
}

// Order returns the files in the order in which they are sent: each after its dictionary, those that a host needs first at the
// beginning, and those with the same dictionary together, because a host reads it once. It leaves out files whose dictionary is
// missing.
func (m Manifest) Order() []File {
	waiting := slices.Clone(m.Files)
	rank := func(f File) int {
		if i := slices.Index(first(), f.Path); i >= 0 {
			return i
		}
		return len(first())
	}
	slices.SortStableFunc(waiting, func(a, b File) int { return cmp.Compare(rank(a), rank(b)) })
	var sent []File
	last := ""
	ready := func(f File) bool { return f.Dictionary == "" || slices.ContainsFunc(sent, f.compressedWith) }
	for len(waiting) > 0 {
		i := slices.IndexFunc(waiting, func(f File) bool { return ready(f) && (f.Dictionary == last || rank(f) < len(first())) })
		if i < 0 {
			i = slices.IndexFunc(waiting, ready)
		}
		if i < 0 {
			return sent
		}
		sent, last = append(sent, waiting[i]), waiting[i].Dictionary
		waiting = slices.Delete(waiting, i, i+1)
	}
	return sent
}

// compressedWith reports whether a host that gets f can decompress it with a file that it got before.
func (f File) compressedWith(before File) bool {
	return before.SHA256 == f.Dictionary && (before.Group == f.Group || before.Group == Base)
}

func (m Manifest) validateSetup() error {
	hasWICD := slices.ContainsFunc(m.Files, func(f File) bool { return f.Path == WICD })
	switch {
	case m.Setup == File{} && !hasWICD:
		return nil
	case m.Setup.Path != SetupName:
		return fmt.Errorf("setup.path is %q, must be %q if the files include %s", m.Setup.Path, SetupName, WICD)
	}
	if err := m.Setup.validate(); err != nil {
		return fmt.Errorf("setup: %w", err)
	}
	return nil
}

// validPath matches names that mean the same file on every file system: no "..", no backslashes and drive letters, no upper case,
// no trailing dots (Windows drops them).
func validPath(path string) bool {
	if !fs.ValidPath(path) || path == "." {
		return false
	}
	for segment := range strings.SplitSeq(path, "/") {
		if strings.HasSuffix(segment, ".") || strings.Trim(segment, "abcdefghijklmnopqrstuvwxyz0123456789._-") != "" {
			return false
		}
	}
	return true
}

// compare orders files by path and group.
func (f File) compare(other File) int {
	return cmp.Or(strings.Compare(f.Path, other.Path), strings.Compare(f.Group, other.Group))
}

func (f File) validate() error {
	if !validPath(f.Path) {
		return fmt.Errorf("path is %q, must be relative, of a-z, 0-9, '.', '_', '-', with '/' between folders", f.Path)
	}
	for _, field := range []struct{ name, value string }{{"component", f.Component}, {"version", f.Version}, {"group", f.Group}} {
		if field.value == "" {
			return fmt.Errorf("(%s): %s is missing", f.Path, field.name)
		}
	}
	if err := (Blob{f.SHA256, f.Size}).validate(); err != nil {
		return fmt.Errorf("(%s): %w", f.Path, err)
	}
	return nil
}

func (b Blob) validate() error {
	raw, err := hex.DecodeString(b.SHA256)
	if err != nil || len(raw) != sha256.Size || strings.ToLower(b.SHA256) != b.SHA256 {
		return fmt.Errorf("sha256 is %q, must be 64 hexadecimal digits in lower case", b.SHA256)
	}
	if b.Size <= 0 {
		return fmt.Errorf("size is %d, must be positive", b.Size)
	}
	return nil
}

// digest hashes the output of "sha256sum" for the files, so that users can verify it.
func digest(files []File) string {
	var list bytes.Buffer
	for _, f := range files {
		fmt.Fprintf(&list, "%s  %s\n", f.SHA256, f.Path)
	}
	sum := sha256.Sum256(list.Bytes())
	return hex.EncodeToString(sum[:])
}
