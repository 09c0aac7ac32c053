package windowsimage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/windows-machine-config/wmco/internal/shared/registryclient"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

type platform struct {
	OS           string `json:"os"`
	OSVersion    string `json:"os.version"`
	Architecture string `json:"architecture"`
}

type entry struct {
	Digest    string   `json:"digest"`
	MediaType string   `json:"mediaType"`
	Platform  platform `json:"platform"`
}

// isIndex reports whether an entry is an index itself.
func (e entry) isIndex() bool {
	return e.MediaType == indexType || e.MediaType == listType
}

// entries are the images of an index. Their number is limited, because each takes more memory than its text.
type entries []entry

// UnmarshalJSON implements json.Unmarshaler.
func (e *entries) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	start, err := d.Token()
	if err != nil || start != json.Delim('[') {
		return errors.Join(err, errNoManifest)
	}
	*e = entries{}
	for d.More() {
		var item entry
		if err := d.Decode(&item); err != nil {
			return err
		}
		if len(*e) == maxEntries {
			return fmt.Errorf("the index has more than %d entries", maxEntries)
		}
		*e = append(*e, item)
	}
	return nil
}

var errNestedIndex = errors.New("the index contains another index, which is not read")

var errNoManifest = errors.New("the response is not an image manifest")

// parseManifest parses an index, and returns its entries, or the manifest of one image, and returns the digest of its configuration.
func parseManifest(text []byte) (index entries, config string, err error) {
	var m struct {
		Config struct {
			Digest string `json:"digest"`
		} `json:"config"`
		Manifests entries `json:"manifests"`
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, "", fmt.Errorf("reading the manifest: %w", err)
	}
	if m.Manifests == nil && !registryclient.IsDigest(m.Config.Digest) {
		return nil, "", errNoManifest
	}
	if m.Manifests != nil {
		return m.Manifests, "", nil
	}
	return nil, m.Config.Digest, nil
}

// readLinuxManifest returns the manifest for Linux on amd64 in an index, or the configuration of a single image.
func readLinuxManifest(text []byte) (manifest, config string, err error) {
	index, config, err := parseManifest(text)
	if err != nil || config != "" {
		return "", config, err
	}
	for _, e := range index {
		if e.Platform.OS == "linux" && e.Platform.Architecture == "amd64" && registryclient.IsDigest(e.Digest) {
			return e.Digest, "", nil
		}
	}
	return "", "", errors.New("no image for Linux on amd64")
}

func readLabels(text []byte) (map[string]string, error) {
	var c struct {
		Config struct {
			Labels map[string]string `json:"Labels"`
		} `json:"config"`
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, fmt.Errorf("reading the image configuration: %w", err)
	}
	return c.Config.Labels, nil
}

// readManifest returns the builds of the images in an index, or the configuration of a single image.
func readManifest(text []byte) (current windowsbuild.Image, config string, err error) {
	index, config, err := parseManifest(text)
	if err != nil || config != "" {
		return current, config, err
	}
	for _, e := range index {
		p := e.Platform
		if e.isIndex() && (p.OS == "windows" || p.OS == "") {
			return windowsbuild.Image{}, "", errNestedIndex // containerd would read it, too; without it, the builds are incomplete
		}
		if p.OS != "windows" || p.Architecture != "amd64" && p.Architecture != "" {
			continue
		}
		if p.OSVersion == "" {
			current.Any = true
		} else if b, err := windowsbuild.Parse(p.OSVersion); err == nil { // no node accepts an invalid version
			current.Builds = append(current.Builds, b)
		}
	}
	slices.Sort(current.Builds)
	current.Builds = slices.Compact(current.Builds)
	return current, "", nil
}

func readConfig(text []byte) (windowsbuild.Image, error) {
	var p platform
	if err := json.Unmarshal(text, &p); err != nil {
		return windowsbuild.Image{}, fmt.Errorf("reading the image configuration: %w", err)
	}
	switch {
	case p.OS == "":
		return windowsbuild.Image{}, errors.New("the image configuration names no operating system")
	case p.OS != "windows":
		return windowsbuild.Image{}, nil
	case p.OSVersion == "":
		return windowsbuild.Image{Any: true}, nil
	}
	b, err := windowsbuild.Parse(p.OSVersion)
	if err != nil {
		return windowsbuild.Image{}, err
	}
	return windowsbuild.Image{Builds: []windowsbuild.Build{b}}, nil
}
