package mask

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
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
	tree, err := parse([]byte(trimmed))
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

// parse parses a JSON document. Its objects keep the order of their fields.
func parse(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return ordered(decoder, 0)
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

// JSON masks the texts of a JSON document, and indents it: values whose key is secret, or whose adjacent name is, as in a container's variables,
// secret arguments of commands, and the data of Secrets.
func (m *Masker) JSON(text []byte) ([]byte, error) {
	tree, err := parse(text)
	if err != nil {
		return nil, err
	}
	return json.MarshalIndent(m.tree("", tree, 0), "", " ")
}

func (m *Masker) tree(key string, value any, depth int) any {
	switch v := value.(type) {
	case string:
		return m.leaf(key, v, depth)
	case json.Number: // may be a password
		if classOf(key) == password && !isHarmless(key, v.String()) {
			return Mark
		}
	case []any:
		return m.list(key, v, depth)
	case object:
		m.fields(v, depth)
	}
	return value
}

// leaf masks one text.
func (m *Masker) leaf(key, v string, depth int) string {
	if key != "" && (classOf(key) != open || isHeader(key)) && !isHarmless(key, v) {
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
func (m *Masker) fields(o object, depth int) {
	values := map[string]any{} // of fields with the same name, the last one counts
	for _, f := range o {
		values[f.key] = f.value
	}
	text := func(keys ...string) string {
		for _, k := range keys {
			if s, isText := values[k].(string); isText && s != "" {
				return s
			}
		}
		return ""
	}
	kind, name := text("kind", "Kind"), text("name", "Name", "key", "Key")
	for i, f := range o {
		key := f.key
		switch {
		case kind == "Secret" && (key == "data" || key == "stringData"):
			f.value = hide(f.value)
		case kind == "SecretList" && key == "items":
			items, _ := f.value.([]any)
			for _, item := range items {
				hideData(item)
			}
		}
		if (key == "value" || key == "Value") && name != "" {
			key = name
		}
		o[i].value = m.tree(key, f.value, depth)
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
	}
	return value
}

// hideData masks the data of a Secret in a list, whose items do not have a kind.
func hideData(item any) {
	o, _ := item.(object)
	for i := range o {
		if o[i].key == "data" || o[i].key == "stringData" {
			o[i].value = hide(o[i].value)
		}
	}
}
