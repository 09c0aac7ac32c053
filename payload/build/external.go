package build

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/payload"
)

// ExternalManifest is the name of the file that lists external files, as payload/README.md describes it.
const ExternalManifest = "external.yaml"

// externalFile is an entry of it: the file that a component consists of, its version, and its SHA-256 in hexadecimal.
type externalFile struct {
	Component string `json:"component"`
	File      string `json:"file"`
	Version   string `json:"version"`
	SHA256    string `json:"sha256"`
}

// externals takes the external files with the checksums that the manifest has, and returns what is not among them.
func (o Options) externals() ([]Content, []payload.Left, error) {
	given, err := o.readExternals()
	if err != nil {
		return nil, nil, err
	}
	var found []Content
	var left []payload.Left
	for _, c := range o.Components {
		if !c.External {
			continue
		}
		i := slices.IndexFunc(given, func(f externalFile) bool { return f.Component == c.Name })
		if i < 0 {
			reason := fmt.Sprintf("no file for %s was given when the payload was built (make payload EXTERNAL=<folder>)", c.Name)
			left = append(left, payload.Left{Component: c.Name, Group: c.Group, Reason: reason})
			o.log("%s: left out, no file is given for it", c.Name)
			continue
		}
		name := filepath.Join(o.External, given[i].File)
		sum, _, err := hashFile(file(name))
		if err != nil {
			return nil, nil, fmt.Errorf("reading the file of %s: %w", c.Name, err)
		}
		if sum != strings.ToLower(given[i].SHA256) {
			return nil, nil, fmt.Errorf("%s has sha256 %s, and %s declares %s for %s %s: get that version, or declare this one",
				name, sum, ExternalManifest, given[i].SHA256, c.Name, given[i].Version)
		}
		found = append(found, content(c, given[i].Version, file(name)))
	}
	return found, left, nil
}

// readExternals reads the manifest. It rejects what is not exactly as it must be.
func (o Options) readExternals() ([]externalFile, error) {
	if o.External == "" {
		return nil, nil
	}
	name := filepath.Join(o.External, ExternalManifest)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is not there; write it as payload/README.md says", name)
	}
	if err != nil {
		return nil, err
	}
	files, err := parseExternals(text, append(Components(), o.Components...))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return files, nil
}

func parseExternals(text []byte, components []Component) ([]externalFile, error) {
	var manifest struct {
		Files []externalFile `json:"files"`
	}
	if err := yaml.UnmarshalStrict(text, &manifest); err != nil {
		return nil, err
	}
	var allowed, seen []string
	for _, c := range components {
		if c.External && !slices.Contains(allowed, c.Name) {
			allowed = append(allowed, c.Name)
		}
	}
	isSum, isVersion := regexp.MustCompile(`^[0-9a-fA-F]{64}$`), regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._+-]{0,63}$`)
	for n, f := range manifest.Files {
		switch {
		case !slices.Contains(allowed, f.Component):
			return nil, fmt.Errorf("files[%d].component is %q; allowed are %s", n, f.Component, strings.Join(allowed, ", "))
		case slices.Contains(seen, f.Component):
			return nil, fmt.Errorf("files[%d].component is %q, as of another file; each component has one", n, f.Component)
		case f.File == "" || strings.ContainsAny(f.File, `/\`) || !filepath.IsLocal(f.File):
			return nil, fmt.Errorf("files[%d].file is %q; allowed is the name of a file beside %s", n, f.File, ExternalManifest)
		case !isSum.MatchString(f.SHA256):
			return nil, fmt.Errorf("files[%d].sha256 is %q; needed are the 64 hexadecimal digits that sha256sum prints", n, f.SHA256)
		case !isVersion.MatchString(f.Version):
			return nil, fmt.Errorf("files[%d].version is %q; needed is the version of the file, as in v1.2.3", n, f.Version)
		}
		seen = append(seen, f.Component)
	}
	return manifest.Files, nil
}
