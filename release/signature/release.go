package signature

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Names of files in the folder of a release. Its checksums do not list the two bundles that are made from them.
const (
	checksums       = "SHA256SUMS"
	ChecksumsBundle = checksums + ".sigstore.json"
	// ProvenanceBundle is the provenance of each file that the checksums list.
	ProvenanceBundle = "provenance.sigstore.json"
)

// Release signs the checksums of a release, and its provenance, into its folder. It first compares every file with its checksum.
func Release(dir string, p Provenance, key *ecdsa.PrivateKey) error {
	text, err := os.ReadFile(filepath.Join(dir, checksums))
	if err != nil {
		return fmt.Errorf("signing the release: %w; run make release", err)
	}
	subjects, err := verify(dir, string(text))
	if err != nil {
		return fmt.Errorf("signing the release: %w; run make release", err)
	}
	ofChecksums, err := SignFile(text, key)
	if err != nil {
		return err
	}
	provenance, err := SignStatement(p.Statement(subjects...), key)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, ChecksumsBundle), append(ofChecksums, '\n'), 0o644),
		os.WriteFile(filepath.Join(dir, ProvenanceBundle), append(provenance, '\n'), 0o644),
	)
}

// verify compares the files of a folder with their checksums, which must list all of them.
func verify(dir, list string) (all []Subject, err error) {
	listed := map[string]bool{checksums: true, ChecksumsBundle: true, ProvenanceBundle: true}
	for line := range strings.Lines(list) {
		sum, name, found := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !found || name != filepath.Base(name) {
			return nil, fmt.Errorf("%s has line %q, want a checksum and the name of a file", checksums, line)
		}
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		hash := sha256.New()
		_, err = io.Copy(hash, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		if found := hex.EncodeToString(hash.Sum(nil)); found != sum {
			return nil, fmt.Errorf("%s has SHA-256 %s, but %s lists %s", name, found, checksums, sum)
		}
		listed[name] = true
		all = append(all, Subject{Name: name, SHA256: sum})
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !listed[e.Name()] {
			return nil, fmt.Errorf("%s is not in %s", e.Name(), checksums)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s is empty", checksums)
	}
	return all, nil
}
