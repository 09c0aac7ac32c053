package scm

import (
	"errors"

	"golang.org/x/sys/windows"
)

// Answer calls a Windows function that fills a buffer, and enlarges the buffer until it is sufficient.
func Answer(call func(buffer *byte, size uint32, needed *uint32) error) ([]byte, error) {
	const most = 256 << 10 // the SCM accepts no larger one
	for size := uint32(4096); ; {
		buffer, needed := make([]byte, size), uint32(0)
		err := call(&buffer[0], size, &needed)
		if err == nil {
			return buffer, nil
		}
		short := errors.Is(err, windows.ERROR_INSUFFICIENT_BUFFER) || errors.Is(err, windows.ERROR_MORE_DATA) ||
			errors.Is(err, windows.ERROR_BUFFER_OVERFLOW)
		if !short || size == most {
			return nil, err
		}
		size = min(size+max(size, needed), most)
	}
}
