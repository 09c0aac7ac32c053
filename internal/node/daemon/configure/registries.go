package configure

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/credentials"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
)

// registries manages the files that direct containerd to WICD's registry. containerd reads them at each pull.
type registries struct {
	work
	wanted *mirrors.Table
}

// write writes the wanted files and removes others. Each file is replaced atomically, so that no pull misses one and contacts a registry that must
// not be contacted.
func (r registries) write(context.Context) error {
	files := map[string]string{}
	if r.wanted != nil {
		endpoint, created, err := credentials.MakeRegistry(r.Host, time.Now())
		if err != nil {
			return err
		}
		if created {
			r.recordChange("%s created", credentials.RegistryFile)
		}
		files = r.wanted.Hosts(mirrors.Endpoint{URL: "https://" + desired.RegistryAddress, CA: desired.RegistryCA, Client: desired.RegistryClient})
		if err := r.writeCertificates(endpoint); err != nil { // before the files that name them
			return err
		}
	}
	var errs []error
	changed := 0
	for _, path := range slices.Sorted(maps.Keys(files)) {
		ok, err := r.Disk.WriteFile(path, files[path])
		if err != nil {
			errs = append(errs, fmt.Errorf("writing %s: %w", path, err))
		}
		if ok {
			changed++
		}
	}
	removed, err := r.removeOthers(files)
	if changed+removed > 0 {
		r.recordChange("mirrors of registries: %d files below %s written, %d removed", changed, desired.Registries, removed)
	}
	return errors.Join(append(errs, err)...)
}

// writeCertificates writes the registry's certificate, and containerd's with its key.
func (r registries) writeCertificates(e credentials.RegistryEndpoint) error {
	if _, err := r.Disk.WriteFile(desired.RegistryCA, e.Server.Certificate); err != nil {
		return fmt.Errorf("writing %s: %w", desired.RegistryCA, err)
	}
	if _, err := r.Disk.WriteSecret(desired.RegistryClient, e.Client.PEM(), r.MakePrivate); err != nil {
		return fmt.Errorf("writing %s: %w", desired.RegistryClient, err)
	}
	return nil
}

// removeOthers removes the operator's files that are not wanted, including those of former versions. Files of others stay.
func (r registries) removeOthers(files map[string]string) (removed int, err error) {
	folders, err := r.Disk.List(desired.Registries)
	if err != nil {
		return 0, fmt.Errorf("listing %s: %w", desired.Registries, err)
	}
	var errs []error
	for _, name := range folders {
		folder := desired.Registries + `\` + name
		path := folder + `\hosts.toml`
		text, err := r.Disk.Read(path)
		if _, wanted := files[path]; wanted || err != nil || !mirrors.IsGenerated(string(text)) {
			continue
		}
		if err := r.removeFolder(folder); err != nil {
			errs = append(errs, fmt.Errorf("removing %s: %w", folder, err))
			continue
		}
		removed++
	}
	return removed, errors.Join(errs...)
}

// formerCA matches the names of the certificates that former versions wrote.
var formerCA = regexp.MustCompile(`^ca-[0-9a-f]{12}\.pem$`)

// removeFolder removes hosts.toml, the certificates beside it that former versions wrote, and the folder if it is then empty.
func (r registries) removeFolder(folder string) error {
	names, err := r.Disk.List(folder)
	if err != nil {
		return err
	}
	slices.Reverse(names) // containerd rejects a hosts.toml whose certificates are missing: remove it first
	for _, name := range names {
		if name != "hosts.toml" && !formerCA.MatchString(name) {
			continue
		}
		if err := r.Disk.Remove(folder + `\` + name); err != nil {
			return err
		}
	}
	if isEmpty(r.Disk, folder) {
		return r.Disk.Remove(folder)
	}
	return nil
}
