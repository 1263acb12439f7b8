package chunk

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The rules that go beyond names and types. Decode and AppendJSON apply the
// same ones, so that what is written can be read.

func (c Chunk) checkHead() *FieldError {
	if err := checkAgentID(c.AgentID); err != nil {
		return err
	}
	if err := checkTimestamp(c.Timestamp); err != nil {
		return err
	}
	return checkStep(c.Step)
}

func checkAgentID(s string) *FieldError {
	switch {
	case s == "":
		return &FieldError{Field: "agentId", Want: "a session id", Got: "an empty string"}
	case hasControl(s):
		return &FieldError{Field: "agentId", Want: "a session id", Got: "one with a control character"}
	}
	return nil
}

func checkTimestamp(ms int64) *FieldError {
	if ms < 0 || ms > MaxTimestamp {
		return &FieldError{Field: "timestamp", Want: "Unix milliseconds before the year 10000", Got: "the number " + strconv.FormatInt(ms, 10)}
	}
	return nil
}

func checkStep(n int64) *FieldError {
	if n < 0 || n > MaxInteger {
		return &FieldError{Field: "step", Want: "an integer of 0 or more", Got: "the number " + strconv.FormatInt(n, 10)}
	}
	return nil
}

// checkOpaqueType keeps types that are new to us printable: they travel in
// message headers, metrics and logs.
func checkOpaqueType(kind Type) *FieldError {
	printable := func(r rune) bool { return r > ' ' && r < 0x7F }
	if kind == "" || len(kind) > MaxTypeLength || strings.ContainsFunc(string(kind), func(r rune) bool { return !printable(r) }) {
		return &FieldError{Field: "type", Want: fmt.Sprintf("1 to %d visible ASCII characters", MaxTypeLength), Got: "something else"}
	}
	return nil
}

func hasControl(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7F {
			return true
		}
	}
	return false
}

// checkString applies what the catalogue says about a string beyond its type.
func (f *field) checkString(s string) *FieldError {
	if f.enum != nil && !slices.Contains(f.enum, s) {
		return &FieldError{Want: f.words, Got: excerpt(s)}
	}
	if f.id && hasControl(s) {
		return &FieldError{Want: "an identifier", Got: "one with a control character"}
	}
	return nil
}

// excerpt quotes what came, cut to a size that fits an error text.
func excerpt(s string) string {
	const maxExcerpt = 40
	if len(s) > maxExcerpt {
		return strconv.QuoteToASCII(s[:maxExcerpt]) + "…"
	}
	return strconv.QuoteToASCII(s)
}

// checkNumber takes a JSON number that a double can hold, with any precision.
func checkNumber(s string) *FieldError {
	if _, err := strconv.ParseFloat(s, 64); err != nil {
		return &FieldError{Want: "a number within the range of a double", Got: wordFor([]byte(s))}
	}
	return nil
}

// checks are the types that checkBody has something to say about.
var checks = []Type{TypeCustom, TypeStatePatch, TypeSourceURL, TypeFile}

// checkBody applies the rules of single types.
func checkBody(b Body) *FieldError {
	switch b := b.(type) {
	case Custom:
		if hasControl(b.EventName) { // it becomes the name of an event on other wires
			return &FieldError{Field: "eventName", Want: "a name", Got: "one with a control character"}
		}
	case StatePatch:
		return checkPatches(b.Patches)
	case SourceURL:
		return checkURL(b.URL)
	case File:
		return checkFile(b)
	}
	return nil
}

// checkPatches holds operations to RFC 6902.
func checkPatches(ops []PatchOp) *FieldError {
	if len(ops) > MaxPatchOps {
		return &FieldError{Field: "patches", Want: fmt.Sprintf("at most %d operations", MaxPatchOps), Got: strconv.Itoa(len(ops))}
	}
	for i, op := range ops {
		if err := checkPatch(op); err != nil {
			return err.under(strconv.Itoa(i)).under("patches")
		}
	}
	return nil
}

func checkPatch(op PatchOp) *FieldError {
	if err := checkPointer(op.Path); err != nil {
		return err.under("path")
	}
	if op.From != nil {
		if err := checkPointer(*op.From); err != nil {
			return err.under("from")
		}
	}
	switch op.Op {
	case "add", "replace", "test":
		if op.Value == nil {
			return &FieldError{Field: "value", Want: "a value for " + op.Op}
		}
	case "move", "copy":
		if op.From == nil {
			return &FieldError{Field: "from", Want: "a JSON pointer for " + op.Op}
		}
	}
	return nil
}

// checkPointer takes RFC 6901: "" or segments that each begin with a slash, ~
// only as ~0 or ~1.
func checkPointer(s string) *FieldError {
	if s != "" && s[0] != '/' {
		return &FieldError{Want: "a JSON pointer", Got: "one that does not begin with a slash"}
	}
	if n := strings.Count(s, "/"); n > MaxPointerSegments {
		return &FieldError{Want: fmt.Sprintf("a JSON pointer of at most %d segments", MaxPointerSegments), Got: strconv.Itoa(n)}
	}
	for i := range len(s) {
		if s[i] == '~' && (i+1 == len(s) || s[i+1] != '0' && s[i+1] != '1') {
			return &FieldError{Want: "a JSON pointer", Got: "a ~ that is neither ~0 nor ~1"}
		}
	}
	return nil
}

// checkFile refuses what a page or a disk must never be given: a URL that is a
// script, and a path that climbs.
func checkFile(f File) *FieldError {
	if err := checkURL(f.URL); err != nil {
		return err
	}
	if !hasScheme(f.URL, "data") && hasDotDot(f.URL) {
		return &FieldError{Field: "url", Want: "the URL of a file", Got: `one with a ".." segment`}
	}
	if f.Filename != nil && hasDotDot(*f.Filename) {
		return &FieldError{Field: "filename", Want: "the name of a file", Got: `one with a ".." segment`}
	}
	return nil
}

func checkURL(url string) *FieldError {
	if hasScheme(url, "javascript") || hasScheme(url, "vbscript") {
		return &FieldError{Field: "url", Want: "the URL of a document", Got: "a script"}
	}
	return nil
}

// hasScheme reads the scheme as a browser does: leading blanks and control
// characters do not count, tabs and line breaks count nowhere, case does not
// matter.
func hasScheme(url, scheme string) bool {
	head := strings.TrimLeftFunc(url, func(r rune) bool { return r <= ' ' })
	for i := range len(head) {
		switch c := head[i] | 0x20; {
		case head[i] == '\t' || head[i] == '\n' || head[i] == '\r':
		case head[i] == ':':
			return scheme == ""
		case scheme == "" || c != scheme[0]:
			return false
		default:
			scheme = scheme[1:]
		}
	}
	return false
}

// hasDotDot reports a ".." segment, also in the spelling that browsers take for one.
func hasDotDot(path string) bool {
	path, _, _ = strings.Cut(path, "?")
	path, _, _ = strings.Cut(path, "#")
	path = strings.NewReplacer("%2e", ".", "%2E", ".").Replace(path)
	isSlash := func(r rune) bool { return r == '/' || r == '\\' }
	return slices.Contains(strings.FieldsFunc(path, isSlash), "..")
}
