package kube

import "reflect"

// mapEntry is the memory overhead of a map entry in addition to its key and value: maps are half full at worst.
const mapEntry = 64

// Memory returns the memory that an object takes, in bytes, including everything it points to.
func Memory(o any) int {
	if o == nil {
		return 0
	}
	v := reflect.ValueOf(o)
	return int(v.Type().Size()) + pointedTo(v)
}

func pointedTo(v reflect.Value) (size int) {
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			size = int(v.Elem().Type().Size()) + pointedTo(v.Elem())
		}
	case reflect.Slice:
		size = v.Cap() * int(v.Type().Elem().Size())
		if isPlain(v.Type().Elem().Kind()) {
			return size
		}
		for i := range v.Len() {
			size += pointedTo(v.Index(i))
		}
	case reflect.Map:
		for key, value := range v.Seq2() {
			size += mapEntry + int(key.Type().Size()) + int(value.Type().Size()) + pointedTo(key) + pointedTo(value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			size += pointedTo(v.Field(i))
		}
	}
	return size
}

func isPlain(kind reflect.Kind) bool { return kind >= reflect.Bool && kind <= reflect.Complex128 }
