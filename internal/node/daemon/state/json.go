package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// WriteJSON replaces a file.
func WriteJSON(d hostapi.Disk, name string, value any) error {
	b, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	if _, err := d.WriteFile(name, string(b)+"\n"); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

// ReadJSON reports whether the file exists and is valid JSON for into.
func ReadJSON(d hostapi.Disk, name string, into any) (found bool, err error) {
	b, err := d.Read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return json.Unmarshal(b, into) == nil, nil
}

// IgnoreAbsent drops the error of a file that does not exist.
func IgnoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
