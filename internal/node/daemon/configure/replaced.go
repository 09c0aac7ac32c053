package configure

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// keptCertificates is how many certificates of each kind are kept: the current one and the previous one. A file that is younger than
// replacedFor may be one that its owner is about to use.
const (
	keptCertificates = 2
	replacedFor      = time.Hour
)

// replacedCertificates removes obsolete certificate files of the kubelet and WICD.
type replacedCertificates struct{ work }

// datedPEM matches a name with a time, such as kubelet-client-2006-01-02-15-04-05.pem.
var datedPEM = regexp.MustCompile(`^(.+)-\d{4}(-\d{2}){5}\.pem$`)

// remove removes the certificates that client-go's certificate store leaves behind whenever it creates a new one:
// kubelet-client-2006-01-02-15-04-05.pem (k8s.io/client-go, util/certificate/certificate_store.go). WICD replaces its own in place; a former
// operator did not.
func (r replacedCertificates) remove() error {
	for _, folder := range []string{desired.KubeletCertificates, desired.WICDCertificates} {
		names, err := r.Disk.List(folder)
		if err != nil {
			return fmt.Errorf("listing %s: %w", folder, err)
		}
		slices.Reverse(names) // the newest first
		seen := map[string]int{}
		for _, name := range names {
			match := datedPEM.FindStringSubmatch(name)
			if match == nil {
				continue
			}
			seen[match[1]]++
			if seen[match[1]] <= keptCertificates || !r.isReplaced(folder+`\`+name, folder+`\`+match[1]+`-current.pem`) {
				continue
			}
			if err := r.Disk.Remove(folder + `\` + name); err != nil {
				return fmt.Errorf("removing %s: %w", name, err)
			}
			r.recordChange(`%s\%s removed: it was replaced`, folder, name)
		}
	}
	return nil
}

// isReplaced reports whether a file is neither in use nor about to be. The clock may have been set back since the others were created, so the name
// alone is not sufficient.
func (r replacedCertificates) isReplaced(name, current string) bool {
	info, err := r.Disk.Stat(name)
	if err != nil || time.Since(info.ModTime()) < replacedFor {
		return false
	}
	previous, err := r.Disk.Read(name)
	now, errNow := r.Disk.Read(current)
	return err == nil && errNow == nil && string(previous) != string(now)
}
