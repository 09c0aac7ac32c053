package wicdapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// Limits of a host's answer to one command. WICD stays far below. Output beyond them is not from WICD, and must not fill the operator's
// memory, however many such hosts there are.
const (
	// maxLine and maxAnswer limit a line and the whole output, in bytes. The longest lines that WICD writes list the content that a host
	// lacks, at most 512 files.
	maxLine   = 64 << 10
	maxAnswer = 8 << 20
	// maxValues limits the JSON values in a line: the smallest take two bytes of it, and a hundred of memory.
	maxValues = 4096
	// briefItems and briefText limit the lists of texts that WICD reports, to half of a line.
	briefItems, briefText = 128, 256
)

// Answers returns all results that a host can return. Each list in them has the tag max, its maximum number of items.
func Answers() []any {
	return []any{&Facts{}, &ReachResult{}, &ReceiveResult{}, &PrepareResult{}, &JoinResult{}, &LeaveResult{}, &RestartResult{}, &InstallUpdatesResult{}, &Status{}}
}

// hasTooManyValues counts the JSON values of a line without decoding it.
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

// decode reads a result. A list over its limit is an error. Texts are truncated, because they end up in objects of the cluster.
func decode(result json.RawMessage, into any) error {
	if !slices.ContainsFunc(Answers(), func(a any) bool { return reflect.TypeOf(a) == reflect.TypeOf(into) }) {
		return fmt.Errorf("%T is not a result of a command", into)
	}
	if err := json.Unmarshal(result, into); err != nil {
		return err
	}
	return limit(reflect.ValueOf(into).Elem(), reflect.StructField{})
}

// limit enforces the limits of a field.
func limit(v reflect.Value, field reflect.StructField) error {
	switch v.Kind() {
	case reflect.String:
		v.SetString(truncate.Text(v.String(), truncate.Reported))
	case reflect.Pointer:
		if !v.IsNil() {
			return limit(v.Elem(), field)
		}
	case reflect.Struct:
		for field, value := range v.Fields() {
			if !field.IsExported() {
				return nil // a type that decodes itself, such as a time or a prefix, keeps no text
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

// maxItems returns the maximum number of items of a list.
func maxItems(field reflect.StructField) int {
	most, err := strconv.Atoi(field.Tag.Get("max"))
	if err != nil {
		return 0
	}
	return most
}

// limitMap replaces the items of a map, because they cannot be changed in place.
func limitMap(v reflect.Value, field reflect.StructField) error {
	short := reflect.MakeMap(v.Type())
	for key, value := range v.Seq2() {
		k, item := reflect.New(key.Type()).Elem(), reflect.New(value.Type()).Elem()
		k.Set(key)
		item.Set(value)
		if err := errors.Join(limit(k, field), limit(item, field)); err != nil {
			return err
		}
		short.SetMapIndex(k, item)
	}
	if !v.IsNil() {
		v.Set(short)
	}
	return nil
}
