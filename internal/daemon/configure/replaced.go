package configure

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/internal/desired"
)

// keptCertificates is how many of each certificate stay: that of now and the one before it. A file that is younger than
// replacedFor may be one that its owner is about to use.
const (
	keptCertificates = 2
	replacedFor      = time.Hour
)

// replacedCertificates are files of the kubelet's and our own certificates that nobody uses any more.
type replacedCertificates struct{ work }

// remove removes the certificates that client-go's certificate store leaves behind whenever it makes a new
// one: kubelet-client-2006-01-02-15-04-05.pem (k8s.io/client-go, util/certificate/certificate_store.go). WICD replaces its
// own in place; a former operator did not.
func (r replacedCertificates) remove() error {
	dated := regexp.MustCompile(`^(.+)-\d{4}(-\d{2}){5}\.pem$`)
	for _, folder := range []string{desired.KubeletCertificates, desired.WICDCertificates} {
		names, err := r.Disk.List(folder)
		if err != nil {
			return fmt.Errorf("listing %s: %w", folder, err)
		}
		slices.Reverse(names) // the newest first
		seen := map[string]int{}
		for _, name := range names {
			match := dated.FindStringSubmatch(name)
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

// isReplaced tells whether a file is none that is in use, nor about to be. The clock may have gone back since the others
// were made: the name alone does not tell.
func (r replacedCertificates) isReplaced(name, current string) bool {
	info, err := r.Disk.Stat(name)
	if err != nil || time.Since(info.ModTime()) < replacedFor {
		return false
	}
	was, err := r.Disk.Read(name)
	now, errNow := r.Disk.Read(current)
	return err == nil && errNow == nil && string(was) != string(now)
}
