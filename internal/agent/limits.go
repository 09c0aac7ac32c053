package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/windows-machine-config/wmco/internal/shorten"
)

// What a host may answer to one command. WICD stays far below; who goes beyond is no WICD, and must not fill the operator's memory, however
// many such hosts there are.
const (
	// maxLine and maxAnswer bound one line of the output, and all of them, in bytes. The longest lines that WICD writes list the content
	// that a host lacks, of at most 512 files.
	maxLine   = 64 << 10
	maxAnswer = 8 << 20
	// maxValues bounds the values of JSON in a line: the smallest take two bytes of it, and a hundred of memory.
	maxValues = 4096
	// briefItems and briefText are what WICD says of a list of texts: half of a line.
	briefItems, briefText = 128, 256
)

// Answers are all results that a host may answer with. Each list in one has the tag max, which says how many items it may have.
func Answers() []any {
	return []any{&Facts{}, &ReachResult{}, &ReceiveResult{}, &JoinResult{}, &LeaveResult{}, &RestartResult{}, &Status{}}
}

// hasTooManyValues counts the values of a line of JSON without decoding it.
func hasTooManyValues(line []byte) bool {
	values, inText, escaped := 0, false, false
	for _, b := range line {
		switch {
		case escaped:
			escaped = false
		case inText:
			escaped, inText = b == '\\', b != '"'
		case b == '"':
			inText = true
		case b == ',' || b == '{' || b == '[':
			values++
		}
	}
	return values > maxValues
}

// decode reads a result. A list that is longer than it may be is an error, and texts are cut to what may be kept of them: they end up in
// objects of the cluster.
func decode(result json.RawMessage, into any) error {
	if !slices.ContainsFunc(Answers(), func(a any) bool { return reflect.TypeOf(a) == reflect.TypeOf(into) }) {
		return fmt.Errorf("%T is no result of a command", into)
	}
	if err := json.Unmarshal(result, into); err != nil {
		return err
	}
	return limit(reflect.ValueOf(into).Elem(), reflect.StructField{})
}

// limit keeps what one field has within its limits.
func limit(v reflect.Value, field reflect.StructField) error {
	switch v.Kind() {
	case reflect.String:
		v.SetString(shorten.Text(v.String(), shorten.Reported))
	case reflect.Pointer:
		if !v.IsNil() {
			return limit(v.Elem(), field)
		}
	case reflect.Struct:
		for field, value := range v.Fields() {
			if !field.IsExported() {
				return nil // of a type that reads itself, a time or a prefix, which keeps no text
			}
			if err := limit(value, field); err != nil {
				return err
			}
		}
	case reflect.Slice, reflect.Map:
		if most := maxItems(field); v.Len() > most {
			return fmt.Errorf("the host's answer has %d %s; at most %d are read", v.Len(), strings.ToLower(field.Name), most)
		}
		if v.Kind() == reflect.Map {
			return limitMap(v, field)
		}
		for i := range v.Len() {
			if err := limit(v.Index(i), field); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxItems is how many items a list may have.
func maxItems(field reflect.StructField) int {
	most, err := strconv.Atoi(field.Tag.Get("max"))
	if err != nil {
		return 0
	}
	return most
}

// limitMap replaces the items of a map, since they cannot be changed in it.
func limitMap(v reflect.Value, field reflect.StructField) error {
	short := reflect.MakeMap(v.Type())
	for key, value := range v.Seq2() {
		k, one := reflect.New(key.Type()).Elem(), reflect.New(value.Type()).Elem()
		k.Set(key)
		one.Set(value)
		if err := errors.Join(limit(k, field), limit(one, field)); err != nil {
			return err
		}
		short.SetMapIndex(k, one)
	}
	if !v.IsNil() {
		v.Set(short)
	}
	return nil
}
