package structured

import (
	"strconv"
	"strings"
)

// segment is one step of a path: an index of an array or a name in an object.
type segment struct {
	name  string
	index int // of an array; -1: a name
}

func (s segment) container() kind {
	if s.index >= 0 {
		return array
	}
	return object
}

// inherited are the names of members that every JavaScript object inherits. A value below one of them cannot be changed, because the inherited one is in the
// way; it can only be set.
var inherited = map[string]bool{
	"hasOwnProperty": true, "isPrototypeOf": true, "propertyIsEnumerable": true,
	"toLocaleString": true, "toString": true, "valueOf": true,
	"__defineGetter__": true, "__defineSetter__": true, "__lookupGetter__": true, "__lookupSetter__": true,
}

// parsePath parses a dotted path. There is no escape: a name with a dot, an empty one and one of digits only cannot be addressed.
func parsePath(path string, strict bool) ([]segment, *RejectedError) {
	if n := strings.Count(path, ".") + 1; n > MaxSegments {
		return nil, &RejectedError{Path: path, Want: "at most " + strconv.Itoa(MaxSegments) + " segments", Got: strconv.Itoa(n)}
	}
	names := strings.Split(path, ".")
	segments := make([]segment, len(names))
	for i, name := range names {
		var problem string
		segments[i], problem = parseSegment(name)
		if problem == "" && strict && (name == "*" || isNegative(name)) {
			problem = "a wildcard or a negative index"
		}
		if problem != "" {
			return nil, &RejectedError{Path: path, At: strings.Join(names[:i+1], "."), Want: "segments separated by single dots, each a name or an index", Got: problem}
		}
	}
	return segments, nil
}

// parseSegment parses one segment; problem is the reason why it is invalid.
func parseSegment(name string) (_ segment, problem string) {
	switch {
	case name == "":
		return segment{}, "an empty one"
	case len(name) > MaxName:
		return segment{}, "one of " + strconv.Itoa(len(name)) + " bytes"
	case name == "__proto__" || name == "constructor":
		// Clients in JavaScript would lose such a write, or fail. They have no difficulty with "prototype", which only functions have.
		return segment{}, "a name of the object prototype"
	case !isDigits(name):
		return segment{name: name, index: -1}, ""
	case name[0] == '0' && name != "0":
		return segment{}, "an index with leading zeros"
	}
	i, err := strconv.Atoi(name)
	if err != nil {
		return segment{}, "an index that no array has"
	}
	return segment{name: name, index: i}, ""
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func isNegative(s string) bool { return s[0] == '-' && isDigits(s[1:]) }
