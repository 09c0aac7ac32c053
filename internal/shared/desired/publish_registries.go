package desired

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
)

// Mirror tables above maxPlainRegistries bytes are compressed: tools that mirror catalogs write thousands of entries,
// and a ConfigMap holds 1 MiB. Tables above maxRegistries bytes are rejected when read.
const (
	maxPlainRegistries = 128 << 10
	maxRegistries      = 32 << 20
)

func putRegistries(data map[string]string, t *mirrors.Table) error {
	if t == nil {
		return nil
	}
	text, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("writing key %s: %w", keyRegistries, err)
	}
	if len(text) <= maxPlainRegistries {
		var b bytes.Buffer
		_ = json.Indent(&b, text, "", "  ") // valid JSON
		data[keyRegistries] = b.String()
		return nil
	}
	if data[keyCompressedRegistries], err = compress(text); err != nil {
		return fmt.Errorf("writing key %s: %w", keyCompressedRegistries, err)
	}
	return nil
}

func readRegistries(data map[string]string) (*mirrors.Table, error) {
	key, text := keyRegistries, []byte(data[keyRegistries])
	if compressed, found := data[keyCompressedRegistries]; found {
		key = keyCompressedRegistries
		var err error
		text, err = decompress(compressed, maxRegistries)
		if err != nil {
			return nil, fmt.Errorf("reading key %s: %w", key, err)
		}
	}
	if len(text) == 0 {
		return nil, nil
	}
	var t mirrors.Table
	if err := json.Unmarshal(text, &t); err != nil {
		return nil, fmt.Errorf("reading key %s: %w", key, err)
	}
	return &t, nil
}
