package image

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"fmt"
	"io"
	"maps"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"

	"github.com/windows-machine-config/wmco/payload"
	"github.com/windows-machine-config/wmco/payload/compress"
)

// develVersion is the version in the build information of a module that was built from a folder.
const develVersion = "(devel)"

// operator returns the component of the operator, with the modules of its executables for all architectures.
func (s Source) operator() (cyclonedx.Component, error) {
	c := cyclonedx.Component{BOMRef: operatorName, Type: cyclonedx.ComponentTypeApplication, Name: operatorName, Version: s.Version}
	all := map[string]cyclonedx.Component{}
	for _, architecture := range slices.Sorted(maps.Keys(s.Operators)) {
		name := s.Operators[architecture]
		info, err := buildinfo.ReadFile(name)
		if err != nil {
			return c, fmt.Errorf("reading the operator %s: %w", name, err)
		}
		c.PackageURL = packageURL(info.Main.Path, "v"+s.Version)
		maps.Copy(all, modules(c.BOMRef, info))
	}
	c.Components = sorted(all)
	return c, nil
}

// programs returns the components of a payload's files, in the order of their paths, and of wicd-setup. The modules of unknown ones
// cannot be determined, because they have no build information of Go.
func programs(p *payload.Payload) (all []cyclonedx.Component, unknown []cyclonedx.BOMReference, err error) {
	add := func(f payload.File, content []byte) {
		c, known := program(f, content)
		if !known {
			unknown = append(unknown, cyclonedx.BOMReference(c.BOMRef))
		}
		all = append(all, c)
	}
	dictionaries := map[string]compress.Dictionary{"": {}}
	order := p.Manifest.Order() // each file after its dictionary
	for i, f := range order {
		content, err := decompress(p, f, dictionaries[f.Dictionary])
		if err != nil {
			return nil, nil, fmt.Errorf("content of %s: %w", f.Path, err)
		}
		add(f, content)
		if slices.ContainsFunc(order[i+1:], func(later payload.File) bool { return later.Dictionary == f.SHA256 }) {
			dictionaries[f.SHA256] = compress.NewDictionary(content)
		}
	}
	if setup := p.Manifest.Setup; setup.Path != "" {
		content, err := readSetup(p)
		if err != nil {
			return nil, nil, err
		}
		add(setup, content)
	}
	slices.SortFunc(all, func(a, b cyclonedx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	slices.Sort(unknown)
	return all, unknown, nil
}

func decompress(p *payload.Payload, f payload.File, d compress.Dictionary) ([]byte, error) {
	blob, err := p.Blob(f)
	if err != nil {
		return nil, err
	}
	defer blob.Close()
	return payload.Unpack(blob, f, d)
}

func readSetup(p *payload.Payload) ([]byte, error) {
	setup, err := p.Setup()
	if err != nil {
		return nil, err
	}
	defer setup.Close()
	return io.ReadAll(setup)
}

// program returns the component of one program, with its modules if they are known.
func program(f payload.File, content []byte) (c cyclonedx.Component, known bool) {
	c = cyclonedx.Component{
		BOMRef: f.Group + "/" + f.Path, Type: cyclonedx.ComponentTypeApplication, Name: f.Component, Version: f.Version, Description: f.Path,
		Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: f.SHA256}},
	}
	if f.License != "" {
		c.Licenses = &cyclonedx.Licenses{{Expression: f.License}}
	}
	info, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil {
		return c, false
	}
	c.PackageURL = packageURL(info.Main.Path, f.Version)
	c.Components = sorted(modules(c.BOMRef, info))
	return c, true
}

// modules returns the components of a program's modules except its own, and of Go's standard library, by their references within the
// program's.
func modules(program string, info *debug.BuildInfo) map[string]cyclonedx.Component {
	all := map[string]cyclonedx.Component{}
	add := func(c cyclonedx.Component) {
		c.Type, c.BOMRef = cyclonedx.ComponentTypeLibrary, program+" "+c.PackageURL
		all[c.BOMRef] = c
	}
	for _, m := range info.Deps {
		path, version := m.Path, m.Version
		switch {
		case m.Replace == nil:
		case m.Replace.Version == "" || m.Replace.Version == develVersion: // by a folder
			version = ""
		default:
			path, version = m.Replace.Path, m.Replace.Version
		}
		add(cyclonedx.Component{Name: path, Version: version, PackageURL: packageURL(path, version)})
	}
	number := strings.TrimPrefix(info.GoVersion, "go")
	add(cyclonedx.Component{Name: "stdlib", Version: info.GoVersion, PackageURL: packageURL("stdlib", number), CPE: "cpe:2.3:a:golang:go:" + number + ":-:*:*:*:*:*:*"})
	return all
}

func sorted(all map[string]cyclonedx.Component) *[]cyclonedx.Component {
	list := make([]cyclonedx.Component, 0, len(all))
	for _, ref := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[ref])
	}
	return &list
}

// packageURL returns the URL of a version of a Go module (https://github.com/package-url/purl-spec, type golang), without a version if
// that is empty. Module paths keep their capital letters, as in advisories.
func packageURL(module, version string) string {
	if version != "" {
		version = "@" + url.QueryEscape(version)
	}
	return "pkg:golang/" + module + version
}
