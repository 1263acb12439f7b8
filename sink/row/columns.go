package row

import (
	"reflect"
	"strings"
	"time"
)

// Type is the type of a column.
type Type int

// The types of columns.
const (
	TypeText  Type = iota
	TypeInt        // 64 bits
	TypeInt32      // 32 bits
	TypeBool
	TypeTime  // UTC, in microseconds
	TypeJSON  // JSON text
	TypeMoney // with nine digits after the point
)

// Column is a column of a table.
type Column struct {
	Name     string
	Type     Type
	Optional bool  // null is allowed: the zero text or a nil pointer
	Index    []int // of the field, see reflect.Value.FieldByIndex
}

// Columns returns the columns of a table in their order. T is Event, Observation or Gap.
func Columns[T any]() []Column { return columnsOf(reflect.TypeFor[T](), nil) }

func columnsOf(t reflect.Type, prefix []int) (columns []Column) {
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(append([]int(nil), prefix...), i)
		if f.Anonymous {
			columns = append(columns, columnsOf(f.Type, index)...)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("parquet"), ",")
		typ, isPointer := f.Type, f.Type.Kind() == reflect.Pointer
		if isPointer {
			typ = typ.Elem()
		}
		columns = append(columns, Column{Name: name, Type: typeOf(typ), Optional: isPointer || strings.Contains(options, "optional"), Index: index})
	}
	return columns
}

func typeOf(t reflect.Type) Type {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return TypeTime
	case t == reflect.TypeFor[JSON]():
		return TypeJSON
	case t == reflect.TypeFor[Money]():
		return TypeMoney
	case t.Kind() == reflect.Bool:
		return TypeBool
	case t.Kind() == reflect.Int32:
		return TypeInt32
	case t.Kind() == reflect.Int64:
		return TypeInt
	}
	return TypeText
}

// Value returns the value of the column in a row: nil for null, otherwise a string, int64, int32, bool, time.Time, JSON or Money. The argument is that of an Event, Observation or Gap.
func (c Column) Value(of reflect.Value) any {
	v := of.FieldByIndex(c.Index)
	switch {
	case v.Kind() == reflect.Pointer && v.IsNil(), c.Optional && v.Kind() == reflect.String && v.Len() == 0:
		return nil
	case v.Kind() == reflect.Pointer:
		v = v.Elem()
	}
	if c.Type == TypeText {
		return v.String()
	}
	return v.Interface()
}
