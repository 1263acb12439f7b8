package rawjson

import (
	"bytes"
	"errors"
	"iter"
	"strconv"
)

var errMalformed = errors.New("not JSON")

// EachMember calls visit with the members of an object until visit returns false. It returns an error if value is not an object, or is malformed as far
// as it was read; the values themselves are not checked.
func EachMember(value []byte, visit func(name Text, value []byte) bool) error {
	return each(value, '{', '}', func(i int) (end int, more, ok bool) {
		if i >= len(value) || value[i] != '"' {
			return 0, false, false
		}
		nameEnd := StringEnd(value, i)
		if nameEnd < 0 {
			return 0, false, false
		}
		name := Text(value[i:nameEnd:nameEnd])
		i = skipSpace(value, nameEnd)
		if i == len(value) || value[i] != ':' {
			return 0, false, false
		}
		i = skipSpace(value, i+1)
		if end = valueEnd(value, i); end < 0 {
			return 0, false, false
		}
		return end, visit(name, value[i:end:end]), true
	})
}

// EachElement calls visit with the elements of an array until visit returns false. It returns an error as EachMember does.
func EachElement(value []byte, visit func(element []byte) bool) error {
	return each(value, '[', ']', func(i int) (end int, more, ok bool) {
		if end = valueEnd(value, i); end < 0 {
			return 0, false, false
		}
		return end, visit(value[i:end:end]), true
	})
}

// each calls item with the offset of each item between two brackets. item returns where the item ends.
func each(value []byte, from, to byte, item func(i int) (end int, more, ok bool)) error {
	i := skipSpace(value, 0)
	if i == len(value) || value[i] != from {
		return errMalformed
	}
	i = skipSpace(value, i+1)
	if i < len(value) && value[i] == to {
		return nil
	}
	for i < len(value) {
		end, more, ok := item(i)
		if !ok {
			return errMalformed
		}
		if !more {
			return nil
		}
		i = skipSpace(value, end)
		if i == len(value) {
			break
		}
		switch value[i] {
		case to:
			return nil
		case ',':
			i = skipSpace(value, i+1)
		default:
			return errMalformed
		}
	}
	return errMalformed
}

// Members yields the members of a valid object in their order, none for another value.
func Members(value []byte) iter.Seq2[Text, []byte] {
	return func(yield func(Text, []byte) bool) { _ = EachMember(value, yield) }
}

// Elements yields the elements of a valid array, none for another value.
func Elements(value []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) { _ = EachElement(value, yield) }
}

// Get returns the member of a valid object with this name; for further names, the member of the value so far. It returns nil if a member is missing.
func Get(value []byte, path ...string) []byte {
	for _, name := range path {
		object := value
		value = nil
		for n, v := range Members(object) {
			if n.Is(name) {
				value = v
				break
			}
		}
	}
	return value
}

// Kind returns the first byte of a value after white space, 0 if there is none.
func Kind(value []byte) byte {
	if i := skipSpace(value, 0); i < len(value) {
		return value[i]
	}
	return 0
}

// TrimSpace cuts JSON white space off both ends.
func TrimSpace(text []byte) []byte {
	text = text[skipSpace(text, 0):]
	for len(text) > 0 && isSpace(text[len(text)-1]) {
		text = text[:len(text)-1]
	}
	return text
}

// AppendCompact appends valid JSON without the white space between tokens. Strings and numbers stay as they are.
func AppendCompact(dst, text []byte) []byte {
	for i := 0; i < len(text); {
		switch {
		case text[i] == '"':
			end := StringEnd(text, i)
			if end < 0 {
				end = len(text)
			}
			dst = append(dst, text[i:end]...)
			i = end
		case isSpace(text[i]):
			i++
		default:
			dst = append(dst, text[i])
			i++
		}
	}
	return dst
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

func skipSpace(text []byte, i int) int {
	for i < len(text) && isSpace(text[i]) {
		i++
	}
	return i
}

// StringEnd returns the offset after the string that opens at i, -1 if it does not end.
func StringEnd(text []byte, i int) int {
	for i++; i < len(text); i++ {
		n := bytes.IndexByte(text[i:], '"')
		if n < 0 {
			return -1
		}
		start := i // of the part that has not been searched
		i += n
		escapes := 0
		for i-escapes > start && text[i-escapes-1] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
	return -1
}

// valueEnd returns the offset after the value that starts at i, -1 if there is no value or it does not end.
func valueEnd(text []byte, i int) int {
	start, level := i, 0
	for i < len(text) {
		switch text[i] {
		case '"':
			if i = StringEnd(text, i); i < 0 {
				return -1
			}
		case '{', '[':
			level++
			i++
		case '}', ']':
			level--
			i++
		default:
			i = wordEnd(text, i, level)
		}
		if level <= 0 {
			if level < 0 || i == start {
				return -1
			}
			return i
		}
	}
	return -1
}

// wordEnd skips a number or literal; inside a container, everything up to the next string or bracket.
func wordEnd(text []byte, i, level int) int {
	for ; i < len(text); i++ {
		switch text[i] {
		case '"', '{', '[', '}', ']':
			return i
		case ',', ':', ' ', '\n', '\t', '\r':
			if level == 0 {
				return i
			}
		}
	}
	return i
}

// Duplicate returns the path of the first name that occurs twice in an object of a valid value, nil if there is none. It recurses once per level.
func Duplicate(value []byte) (path []string) {
	switch value = TrimSpace(value); {
	case len(value) == 0:
	case value[0] == '[':
		i := 0
		for elem := range Elements(value) {
			if path := Duplicate(elem); path != nil {
				return append([]string{strconv.Itoa(i)}, path...)
			}
			i++
		}
	case value[0] == '{':
		var names NameSet
		for name, v := range Members(value) {
			text := name.Bytes()
			if !names.Add(text) {
				return []string{string(text)}
			}
			if path := Duplicate(v); path != nil {
				return append([]string{string(text)}, path...)
			}
		}
	}
	return nil
}
