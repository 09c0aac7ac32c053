package acceptance

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// imagesFolder contains images next to the other files of a join, each in a folder in the format
// https://github.com/opencontainers/image-spec/blob/main/image-layout.md.
const imagesFolder = "images"

// images serves such images as a read-only registry.
type images struct {
	blobs map[string]string // digest -> file
	names []namedImage
}

// namedImage is a manifest or an index with its name in the layout.
type namedImage struct {
	name string // registry/repository:tag, or a tag alone
	descriptor
}

// readImages reads the layouts below a folder. An absent folder is treated as empty.
func readImages(folder string) (images, error) {
	all := images{blobs: map[string]string{}}
	layouts, err := filepath.Glob(filepath.Join(folder, "*", "index.json"))
	if err != nil {
		return all, err
	}
	for _, name := range layouts {
		if err := all.add(filepath.Dir(name)); err != nil {
			return all, fmt.Errorf("reading the images in %s: %w", filepath.Dir(name), err)
		}
	}
	return all, nil
}

func (i *images) add(layout string) error {
	content, err := os.ReadFile(filepath.Join(layout, "index.json"))
	if err != nil {
		return err
	}
	var index struct {
		Manifests []struct {
			descriptor
			Annotations map[string]string `json:"annotations"`
		} `json:"manifests"`
	}
	if err := json.Unmarshal(content, &index); err != nil {
		return err
	}
	for _, m := range index.Manifests {
		name := m.Annotations["io.containerd.image.name"]
		if name == "" {
			name = m.Annotations["org.opencontainers.image.ref.name"]
		}
		i.names = append(i.names, namedImage{name, m.descriptor})
	}
	digest := regexp.MustCompile(`^[0-9a-f]{64}$`)
	return filepath.WalkDir(filepath.Join(layout, "blobs", "sha256"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && digest.MatchString(entry.Name()) {
			i.blobs["sha256:"+entry.Name()] = path
		}
		return err
	})
}

// ServeHTTP implements the part of the registry API that containerd uses.
func (i images) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "this registry is read-only", http.StatusMethodNotAllowed)
		return
	}
	path, under := strings.CutPrefix(r.URL.Path, "/v2/")
	if under && path == "" {
		return
	}
	m := regexp.MustCompile(`^(.+)/(manifests|blobs)/([^/]+)$`).FindStringSubmatch(path)
	if !under || m == nil {
		http.NotFound(w, r)
		return
	}
	d := descriptor{MediaType: "application/octet-stream", Digest: m[3]}
	if m[2] == "manifests" {
		d = i.manifest(m[1], m[3])
	}
	file, known := i.blobs[d.Digest]
	if !known {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", d.MediaType)
	w.Header().Set("Docker-Content-Digest", d.Digest)
	http.ServeFile(w, r, file)
}

// manifest finds a manifest by its digest, or by repository and tag.
func (i images) manifest(repository, reference string) descriptor {
	at := slices.IndexFunc(i.names, func(n namedImage) bool {
		return n.Digest == reference || n.name == reference || strings.HasSuffix("/"+n.name, "/"+repository+":"+reference)
	})
	if at >= 0 {
		return i.names[at].descriptor
	}
	// A manifest that an index lists. Its content has its media type.
	var reported struct {
		MediaType string `json:"mediaType"`
	}
	if file, known := i.blobs[reference]; known {
		if info, err := os.Stat(file); err == nil && info.Size() <= maxManifest {
			if content, err := os.ReadFile(file); err == nil && json.Unmarshal(content, &reported) == nil && reported.MediaType == "" {
				reported.MediaType = ociManifest
			}
		}
	}
	return descriptor{MediaType: reported.MediaType, Digest: reference}
}

// serveImages serves the included images on loopback, at address or a free one, and makes this server the mirror of all registries, unless the user
// set a mirror. It serves until the process ends.
func (j *joining) serveImages(address string) error {
	copied, err := readImages(j.path(imagesFolder))
	if err != nil || len(copied.names) == 0 || j.options.Mirror != "" {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp4", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: copied, ReadHeaderTimeout: callTimeout}
	go func() { _ = server.Serve(l) }() // if it fails, the pod does
	j.imageServer = l.Addr().String()
	j.options.Mirror = j.imageServer
	j.printf("  serving the included images at %s", j.imageServer)
	return nil
}
