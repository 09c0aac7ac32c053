// Package strictjson reads JSON that only this project's own programs write, from a file, a process or an object that may be damaged or hostile.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// Unmarshal is json.Unmarshal for text that has exactly one value, without fields that v does not have. The caller limits the size of text.
func Unmarshal(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("text follows the JSON value")
	}
	return nil
}
