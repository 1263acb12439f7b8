package rawjson

import "strconv"

// Object builds a JSON object at the end of Dst. Names are written as they are: they must not need an escape.
type Object struct{ Dst []byte }

// Begin opens an object at the end of dst.
func Begin(dst []byte) Object { return Object{Dst: append(dst, '{')} }

// End closes the object and returns the text.
func (o *Object) End() []byte { return append(o.Dst, '}') }

// Name writes the name of the next member, whose value the caller appends to Dst.
func (o *Object) Name(name string) {
	if o.Dst[len(o.Dst)-1] != '{' {
		o.Dst = append(o.Dst, ',')
	}
	o.Dst = append(o.Dst, '"')
	o.Dst = append(o.Dst, name...)
	o.Dst = append(o.Dst, '"', ':')
}

// Nest opens a member that is an object. The members that follow are its own until Close.
func (o *Object) Nest(name string) {
	o.Name(name)
	o.Dst = append(o.Dst, '{')
}

// Close closes the object that Nest opened.
func (o *Object) Close() { o.Dst = append(o.Dst, '}') }

// String writes a WTF-8 string in the spelling of snapshots.
func (o *Object) String(name, v string) {
	o.Name(name)
	o.Dst = AppendQuoted(o.Dst, v)
}

// Bytes is String for text in bytes.
func (o *Object) Bytes(name string, v []byte) {
	o.Name(name)
	o.Dst = AppendQuoted(o.Dst, v)
}

// Text is String that leaves out an empty member.
func (o *Object) Text(name, v string) {
	if v != "" {
		o.String(name, v)
	}
}

// TextOrNull adds a string, or null if it is empty.
func (o *Object) TextOrNull(name, v string) {
	if v == "" {
		o.Raw(name, []byte("null"))
		return
	}
	o.String(name, v)
}

// Maybe is String that leaves out a member that is nil.
func (o *Object) Maybe(name string, v *string) {
	if v != nil {
		o.String(name, *v)
	}
}

// Content writes a string from the content of another one, which is escaped already.
func (o *Object) Content(name string, content []byte) {
	o.Name(name)
	o.Dst = append(o.Dst, '"')
	o.Dst = append(o.Dst, content...)
	o.Dst = append(o.Dst, '"')
}

// Int writes an integer, unless it is 0.
func (o *Object) Int(name string, v int64) {
	if v != 0 {
		o.Number(name, v)
	}
}

// Number writes an integer.
func (o *Object) Number(name string, v int64) {
	o.Name(name)
	o.Dst = strconv.AppendInt(o.Dst, v, 10)
}

// Flag writes true, or leaves out the member.
func (o *Object) Flag(name string, v bool) {
	if v {
		o.Bool(name, true)
	}
}

// Bool writes true or false.
func (o *Object) Bool(name string, v bool) {
	o.Name(name)
	o.Dst = strconv.AppendBool(o.Dst, v)
}

// Raw writes a member from JSON text, or leaves it out if the text is nil.
func (o *Object) Raw(name string, v []byte) {
	if v != nil {
		o.Name(name)
		o.Dst = append(o.Dst, v...)
	}
}

// AddList writes an array, also an empty one. element appends one element.
func AddList[T any](o *Object, name string, list []T, element func(T, []byte) []byte) {
	if len(list) == 0 {
		o.Raw(name, []byte("[]"))
	}
	o.List(name, len(list), func(dst []byte, i int) []byte { return element(list[i], dst) })
}

// List writes an array of n elements, or leaves out the member if n is 0. element appends the element with index i.
func (o *Object) List(name string, n int, element func(dst []byte, i int) []byte) {
	if n == 0 {
		return
	}
	o.Name(name)
	o.Dst = append(o.Dst, '[')
	for i := range n {
		if i > 0 {
			o.Dst = append(o.Dst, ',')
		}
		o.Dst = element(o.Dst, i)
	}
	o.Dst = append(o.Dst, ']')
}
