package hostapi

import (
	"fmt"
	"io"
	"os"
)

// Read returns the content of a file, or fs.ErrNotExist if it is absent.
func (d Disk) Read(name string) ([]byte, error) {
	f, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// ReadAtMost returns the content of a regular file of at most this many bytes.
func (d Disk) ReadAtMost(name string, limit int64) ([]byte, error) {
	info, err := d.Stat(name)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > limit) {
		err = fmt.Errorf("%s is not a regular file of at most %d bytes", name, limit)
	}
	if err != nil {
		return nil, err
	}
	f, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content := make([]byte, info.Size())
	_, err = io.ReadFull(f, content)
	return content, err
}

// Open opens a file for reading.
func (d Disk) Open(name string) (f *os.File, err error) {
	err = retryWhileUnreadable(func() (err error) {
		if d.BeforeRead != nil {
			if err := d.BeforeRead(name); err != nil {
				return err
			}
		}
		f, err = os.Open(d.Local(name))
		return err
	})
	return f, err
}
