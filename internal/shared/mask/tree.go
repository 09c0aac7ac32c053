package mask

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Limits of parsed JSON.
const (
	maxJSON   = 64 << 20
	maxNested = 200
)

// object is a JSON object whose fields keep their order.
type object []field

type field struct {
	key   string
	value any
}

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := plain(f.key)
		if err != nil {
			return nil, err
		}
		value, err := plain(f.value)
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// plain encodes JSON without HTML escapes.
func plain(value any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// json masks a text that is a JSON object, list or string. It returns the text unchanged if nothing is masked.
func (m *Masker) json(text string, depth int) (masked string, isJSON bool) {
	trimmed := strings.TrimSpace(text)
	if depth > maxDepth || len(trimmed) < 2 || len(trimmed) > maxJSON || !json.Valid([]byte(trimmed)) {
		return "", false
	}
	if strings.IndexByte(`{["`, trimmed[0]) < 0 {
		return "", false
	}
	decoder := json.NewDecoder(strings.NewReader(trimmed))
	decoder.UseNumber()
	tree, err := ordered(decoder, 0)
	if err != nil {
		return "", false
	}
	before, err := plain(tree)
	if err != nil {
		return "", false
	}
	after, err := plain(m.tree("", tree, depth))
	if err != nil {
		return "", false
	}
	if bytes.Equal(before, after) {
		return text, true
	}
	if strings.Contains(trimmed, "\n") {
		var b bytes.Buffer
		if json.Indent(&b, after, "", "  ") == nil {
			after = b.Bytes()
		}
	}
	at := strings.Index(text, trimmed)
	return text[:at] + string(after) + text[at+len(trimmed):], true
}

// ordered decodes a JSON value.
func ordered(d *json.Decoder, depth int) (any, error) {
	if depth > maxNested {
		return nil, errors.New("nested too deeply")
	}
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('['):
		list := []any{}
		for d.More() {
			value, err := ordered(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		_, err = d.Token()
		return list, err
	case json.Delim('{'):
		o := object{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			value, err := ordered(d, depth+1)
			if err != nil {
				return nil, err
			}
			name, isName := key.(string)
			if !isName {
				return nil, io.ErrUnexpectedEOF
			}
			o = append(o, field{name, value})
		}
		_, err = d.Token()
		return o, err
	}
	return token, nil
}

// Tree masks the texts of a JSON value: values whose key is secret, or whose adjacent name is, as in a container's variables, secret arguments
// of commands, and the data of Secrets. It changes values in place.
func (m *Masker) Tree(value any) any { return m.tree("", value, 0) }

func (m *Masker) tree(key string, value any, depth int) any {
	switch v := value.(type) {
	case string:
		return m.leaf(key, v, depth)
	case json.Number: // may be a password
		if classOf(key) == password && !isHonest(key, v.String()) {
			return Mark
		}
	case float64: // the same without UseNumber
		return m.tree(key, json.Number(strconv.FormatFloat(v, 'f', -1, 64)), depth)
	case []any:
		return m.list(key, v, depth)
	case object:
		fields := map[string]int{}
		for i, f := range v {
			fields[f.key] = i
		}
		m.fields(slices.Collect(maps.Keys(fields)), func(k string) any {
			if i, found := fields[k]; found {
				return v[i].value
			}
			return nil
		}, func(k string, x any) {
			for i := range v { // keys may be duplicated
				if v[i].key == k {
					v[i].value = x
				}
			}
		}, depth)
	case map[string]any:
		m.fields(slices.Collect(maps.Keys(v)), func(k string) any { return v[k] }, func(k string, x any) { v[k] = x }, depth)
	}
	return value
}

// leaf masks one text.
func (m *Masker) leaf(key, v string, depth int) string {
	if key != "" && (classOf(key) != open || isHeader(key)) && !isHonest(key, v) {
		return Mark
	}
	if isEncodedLogin(key, v) {
		return Mark
	}
	return m.text(v, depth+1)
}

// list masks the arguments of a command or a list of values.
func (m *Masker) list(key string, list []any, depth int) []any {
	args := make([]string, len(list))
	for i := range list {
		args[i], _ = list[i].(string)
	}
	secret := m.arguments(args)
	for i := range list {
		if from, found := secret[i]; found {
			list[i] = args[i][:from] + Mark
			continue
		}
		list[i] = m.tree(key, list[i], depth)
	}
	return list
}

// fields masks the fields of an object.
func (m *Masker) fields(keys []string, get func(string) any, set func(string, any), depth int) {
	text := func(keys ...string) string {
		for _, k := range keys {
			if s, isText := get(k).(string); isText && s != "" {
				return s
			}
		}
		return ""
	}
	kind, name := text("kind", "Kind"), text("name", "Name", "key", "Key")
	for _, k := range keys {
		value := get(k)
		switch {
		case kind == "Secret" && (k == "data" || k == "stringData"):
			value = hide(value)
		case kind == "SecretList" && k == "items":
			items, _ := value.([]any)
			for i := range items {
				items[i] = hideData(items[i])
			}
		}
		if (k == "value" || k == "Value") && name != "" {
			set(k, m.tree(name, value, depth))
			continue
		}
		set(k, m.tree(k, value, depth))
	}
}

// hide masks every text of a value.
func hide(value any) any {
	switch v := value.(type) {
	case string:
		return Mark
	case []any:
		for i := range v {
			v[i] = hide(v[i])
		}
	case object:
		for i := range v {
			v[i].value = hide(v[i].value)
		}
	case map[string]any:
		for k := range v {
			v[k] = hide(v[k])
		}
	}
	return value
}

// hideData masks the data of a Secret in a list, whose items do not have a kind.
func hideData(item any) any {
	switch v := item.(type) {
	case object:
		for i := range v {
			if v[i].key == "data" || v[i].key == "stringData" {
				v[i].value = hide(v[i].value)
			}
		}
	case map[string]any:
		for _, k := range []string{"data", "stringData"} {
			if data, found := v[k]; found {
				v[k] = hide(data)
			}
		}
	}
	return item
}
