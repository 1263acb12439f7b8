package fold

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// form is an object in the stored form, which is written or read. Each type has one list of its members for both directions.
//
// The stored form is exact: every process writes the same bytes for a snapshot, including values of any depth and lone surrogates, which encoding/json would
// replace.
type form struct {
	out rawjson.Object
	in  map[string]chunk.Value // of a form that is read
	r   *reader                // nil in a form that is written
}

// fields writes or reads the members of a value, in the order in which they are stored. It must not change a value that is written.
type fields[T any] func(v *T, f *form)

func appendForm[T any](dst []byte, v *T, of fields[T]) []byte {
	f := form{out: rawjson.Begin(dst)}
	of(v, &f)
	return f.out.End()
}

// stringMember is a string that is stored if it is empty too.
func stringMember[T ~string](f *form, name string, v *T) {
	if f.r != nil {
		*v = T(f.r.str(f.in[name]))
		return
	}
	f.out.String(name, string(*v))
}

// textMember is a string that is not stored if it is empty.
func textMember[T ~string](f *form, name string, v *T) {
	if f.r != nil || *v != "" {
		stringMember(f, name, v)
	}
}

func numberMember[T ~int | ~int64 | ~uint64](f *form, name string, v *T) {
	if f.r != nil {
		*v = T(f.r.number(f.in[name]))
		return
	}
	f.out.Int(name, int64(*v))
}

func (f *form) maybe(name string, v **string) {
	if f.r != nil {
		*v = f.r.maybe(f.in[name])
		return
	}
	f.out.Maybe(name, *v)
}

func (f *form) flag(name string, v *bool) {
	if f.r != nil {
		*v = f.r.flag(f.in[name])
		return
	}
	f.out.Flag(name, *v)
}

func (f *form) raw(name string, v *chunk.Value) {
	if f.r != nil {
		*v = f.in[name]
		return
	}
	f.out.Raw(name, *v)
}

func objectMember[T any](f *form, name string, v *T, of fields[T]) {
	if f.r != nil {
		readObject(f, f.in[name], v, of)
		return
	}
	f.out.Nest(name)
	of(v, f)
	f.out.Close()
}

func readObject[T any](f *form, raw []byte, v *T, of fields[T]) {
	outer := f.in
	f.in = f.r.members(raw)
	of(v, f)
	f.in = outer
}

// optionalMember is an object that is not stored if it is nil.
func optionalMember[T any](f *form, name string, v **T, of fields[T]) {
	if _, ok := f.in[name]; ok {
		*v = new(T)
	}
	if *v != nil {
		objectMember(f, name, *v, of)
	}
}

// listMember is an array, which is not stored if it is empty.
func listMember[T any](f *form, name string, v *[]T, write func([]byte, *T) []byte, read func([]byte) T) {
	if f.r != nil {
		f.r.each(f.in[name], func(raw []byte) { *v = append(*v, read(raw)) })
		return
	}
	f.out.List(name, len(*v), func(dst []byte, i int) []byte { return write(dst, &(*v)[i]) })
}

// objectsMember is an array of objects, which is not stored if it is empty.
func objectsMember[T any](f *form, name string, v *[]T, of fields[T]) {
	if f.r != nil {
		f.r.each(f.in[name], func(raw []byte) {
			*v = append(*v, *new(T))
			readObject(f, raw, &(*v)[len(*v)-1], of)
		})
		return
	}
	f.out.List(name, len(*v), func(dst []byte, i int) []byte {
		f.out = rawjson.Begin(dst)
		of(&(*v)[i], f)
		return f.out.End()
	})
}

// pairsMember is a list of pairs of numbers; of returns both of one pair.
func pairsMember[T any, A, B ~int | ~int64 | ~uint64](f *form, name string, v *[]T, of func(*T) (*A, *B)) {
	listMember(f, name, v, func(dst []byte, e *T) []byte {
		a, b := of(e)
		dst = strconv.AppendInt(append(dst, '['), int64(*a), 10)
		dst = strconv.AppendInt(append(dst, ','), int64(*b), 10)
		return append(dst, ']')
	}, func(raw []byte) (e T) {
		x, y := f.r.pair(raw)
		a, b := of(&e)
		*a, *b = A(x), B(y)
		return e
	})
}

// sharedMember is objectsMember in a snapshot inside another one: the flag same replaces a list that equals that of the outer snapshot. A list that is read then
// shares its memory.
func sharedMember[T any](f *form, name, same string, v *[]T, outer []T, of fields[T]) {
	isSame := f.r != nil && f.r.flag(f.in[same])
	if f.r == nil && len(*v) > 0 && len(*v) == len(outer) {
		isSame = &(*v)[0] == &outer[0]
		if !isSame { // not the same in memory; after a load it would be
			var a, b form
			a.out, b.out = rawjson.Begin(nil), rawjson.Begin(nil)
			objectsMember(&a, name, v, of)
			objectsMember(&b, name, &outer, of)
			isSame = bytes.Equal(a.out.Dst, b.out.Dst)
		}
	}
	switch {
	case !isSame:
		objectsMember(f, name, v, of)
	case f.r != nil:
		*v = outer
	default:
		f.out.Flag(same, true)
	}
}

// reader reads the stored form and keeps the first error.
type reader struct{ err error }

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", errStored, what)
	}
}

func (r *reader) hash(name, text string, to *[sha256.Size]byte) {
	sum, err := hex.DecodeString(text)
	if err != nil || len(sum) != len(to) {
		r.fail(name)
	}
	copy(to[:], sum)
}

func (r *reader) str(raw []byte) string {
	if raw == nil {
		return ""
	}
	s, err := unquote(raw)
	if err != nil {
		r.fail(err.Error())
	}
	return s
}

func (r *reader) bytes(raw []byte) []byte {
	if raw == nil {
		return nil
	}
	s, err := rawjson.Text(raw).AppendTo(make([]byte, 0, len(raw)))
	if err != nil {
		r.fail(err.Error())
	}
	return s
}

func (r *reader) maybe(raw []byte) *string {
	if raw == nil {
		return nil
	}
	s := r.str(raw)
	return &s
}

func (r *reader) number(raw []byte) int64 {
	if raw == nil {
		return 0
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		r.fail("malformed number")
	}
	return n
}

func (r *reader) flag(raw []byte) bool { return string(raw) == "true" }

func (r *reader) pair(raw []byte) (int64, int64) {
	var n []int64
	r.each(raw, func(raw []byte) { n = append(n, r.number(raw)) })
	if len(n) != 2 {
		r.fail("want a pair of numbers")
		return 0, 0
	}
	return n[0], n[1]
}

// members returns the members of a JSON object, none if raw is nil.
func (r *reader) members(raw []byte) map[string]chunk.Value {
	if raw == nil {
		return nil
	}
	m, err := members(raw)
	if err != nil {
		r.fail(err.Error())
	}
	return m
}

// each calls f with the elements of a JSON array; it does nothing if raw is nil.
func (r *reader) each(raw []byte, f func(raw []byte)) {
	if raw == nil {
		return
	}
	list, err := elements(raw)
	if err != nil {
		r.fail(err.Error())
	}
	for _, raw := range list {
		f(raw)
	}
}
