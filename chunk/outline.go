package chunk

import "github.com/tailrace/tailrace/internal/rawjson"

// member is one member of an object. Both parts are parts of the text.
type member struct {
	name  rawjson.Text
	value []byte
}

// outline is what a scan of a chunk found.
type outline struct {
	members   []member // of the outermost object
	newline   bool     // a line break occurs outside strings
	unescaped bool     // no name has an escape
}

var (
	limits      = rawjson.Limits{Levels: MaxDepth, Values: MaxValues, Name: MaxName}
	plainLimits = rawjson.Limits{Levels: MaxDepth, Values: MaxValues, Name: MaxName, Plain: true}

	// writerLimits are those of chunks that a writer has not stored yet.
	writerLimits      = rawjson.Limits{Levels: MaxDepth, Name: MaxName}
	plainWriterLimits = rawjson.Limits{Levels: MaxDepth, Name: MaxName, Plain: true}
)

// outlineOf checks that text is one JSON object within the limits without duplicate names, and returns its outline. The members are put into scratch,
// and elsewhere only if it is too small.
func outlineOf(text []byte, scratch []member) (outline, *FieldError) {
	return outlineWithin(text, scratch, &plainLimits, &limits)
}

func outlineWithin(text []byte, scratch []member, plain, all *rawjson.Limits) (outline, *FieldError) {
	if out, _, ok := scan(text, plain, scratch); ok {
		out.unescaped = true
		return out, nil
	}
	out, info, ok := scan(text, all, scratch)
	switch {
	case ok:
		return out, checkNames(text)
	case len(text) == 0 || text[0] == '{':
		return out, explain(text, info)
	}
	if _, err := checkWithin(text, *all); err != nil {
		return out, err
	}
	return out, &FieldError{Want: "an object", Got: wordFor(text)}
}

func scan(text []byte, l *rawjson.Limits, scratch []member) (outline, rawjson.Info, bool) {
	out := outline{members: scratch[:0]}
	info, ok := rawjson.ScanObject(text, *l, func(name, value rawjson.Span) bool {
		out.members = append(out.members, member{name: name.Of(text), value: value.Of(text)})
		return true
	})
	out.newline = info.HasLineBreaks
	return out, info, ok
}
