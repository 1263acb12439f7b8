package fold

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/tailrace/tailrace/chunk"
)

// Limits of the custom state. A patch that breaks one is refused as a whole.
const (
	MaxState     = 1 << 20 // bytes of the result
	maxOps       = 1000    // operations of one patch
	maxGrowth    = MaxState
	maxPathDepth = 128 // tokens of one pointer
	maxDepth     = 512 // nesting of the result
	maxOddOps    = 32  // operations that need a look at the document first
)

var emptyState = chunk.Value(`{}`)

// patch changes the custom state, or leaves it as it was and counts: a patch is
// applied as a whole or not at all.
func (s *Snapshot) patch(rec chunk.Record, b chunk.StatePatch) {
	state := s.State
	if state == nil {
		state = emptyState
	}
	next, err := patchState(state, b.Patches)
	if err != nil {
		s.Faults.Patches++
		s.fault(rec, err.Error())
		return
	}
	s.State = next
}

// patchState is RFC 6902 within limits. The library does the work; what it does
// otherwise than the RFC is refused before it gets there.
func patchState(state chunk.Value, ops []chunk.PatchOp) (chunk.Value, error) {
	if len(ops) > maxOps {
		return nil, fmt.Errorf("%d operations, want at most %d", len(ops), maxOps)
	}
	for i := range ops {
		if err := checkOp(&ops[i]); err != nil {
			return nil, fmt.Errorf("operation %d: %w", i, err)
		}
	}
	shield, state, ops, err := shieldSurrogates(state, ops)
	if err != nil {
		return nil, err
	}
	if state, err = applyOps(state, ops); err != nil {
		return nil, err
	}
	if shield {
		state = unshield(state)
	}
	if len(state) > MaxState {
		return nil, fmt.Errorf("the state would have %d bytes, want at most %d", len(state), MaxState)
	}
	if d := depth(state); d > maxDepth {
		return nil, fmt.Errorf("the state would nest %d deep, want at most %d", d, maxDepth)
	}
	return state, nil
}

// applyOps applies operations in order. Those with a token that only the
// document can judge are applied after a look at it.
func applyOps(state chunk.Value, ops []chunk.PatchOp) (chunk.Value, error) {
	odd := 0
	for len(ops) > 0 {
		n := 1
		if isOdd(&ops[0]) {
			if odd++; odd > maxOddOps {
				return nil, fmt.Errorf("more than %d operations with unusual tokens", maxOddOps)
			}
			if err := checkAgainst(state, &ops[0]); err != nil {
				return nil, err
			}
		} else {
			for n < len(ops) && !isOdd(&ops[n]) {
				n++
			}
		}
		var err error
		if state, err = applyLibrary(state, ops[:n]); err != nil {
			return nil, err
		}
		ops = ops[n:]
	}
	return state, nil
}

// applyLibrary hands a run of operations to the library. It panics on some
// inputs (a test that compares null elements), which is a refusal like others.
func applyLibrary(state chunk.Value, ops []chunk.PatchOp) (next chunk.Value, err error) {
	defer func() {
		if p := recover(); p != nil {
			next, err = nil, errors.New("the operations cannot be applied")
		}
	}()
	patch := make(jsonpatch.Patch, len(ops))
	for i := range ops {
		patch[i] = operation(&ops[i])
	}
	return patch.ApplyWithOptions(state, &jsonpatch.ApplyOptions{AccumulatedCopySizeLimit: maxGrowth})
}

func operation(op *chunk.PatchOp) jsonpatch.Operation {
	o := jsonpatch.Operation{"op": rawString(op.Op), "path": rawString(op.Path)}
	if op.From != nil {
		o["from"] = rawString(*op.From)
	}
	if op.Value != nil {
		// White space before a value would confuse the library, which looks at
		// first bytes.
		var compact bytes.Buffer
		if json.Compact(&compact, orNull(*op.Value)) == nil {
			raw := json.RawMessage(compact.Bytes())
			o["value"] = &raw
		}
	}
	return o
}

func rawString(s string) *json.RawMessage {
	raw := json.RawMessage(appendString(nil, s))
	return &raw
}

// checkOp refuses what no document could make right.
func checkOp(op *chunk.PatchOp) error {
	if err := checkPointer(op.Path); err != nil {
		return fmt.Errorf("path: %w", err)
	}
	switch op.Op {
	case "add", "replace", "test":
		if op.Value == nil {
			return fmt.Errorf("%s without a value", op.Op)
		}
		if op.Path == "" && op.Op != "test" && !isContainer(*op.Value) {
			return errors.New("the whole state must be an object or an array")
		}
	case "move", "copy":
		if op.From == nil {
			return fmt.Errorf("%s without from", op.Op)
		}
		if err := checkPointer(*op.From); err != nil {
			return fmt.Errorf("from: %w", err)
		}
		if *op.From == "" || op.Path == "" {
			return errors.New("the whole state cannot be moved or copied")
		}
	case "remove":
		if op.Path == "" {
			return errors.New("the whole state cannot be removed")
		}
	default:
		return fmt.Errorf("unknown operation %q", clip(op.Op))
	}
	return nil
}

func checkPointer(p string) error {
	if p == "" {
		return nil
	}
	if p[0] != '/' {
		return errors.New("want a JSON pointer, which begins with a slash")
	}
	tokens := strings.Count(p, "/")
	if tokens > maxPathDepth {
		return fmt.Errorf("%d tokens, want at most %d", tokens, maxPathDepth)
	}
	for rest := p; ; {
		i := strings.IndexByte(rest, '~')
		if i < 0 {
			break
		}
		if i+1 == len(rest) || rest[i+1] != '0' && rest[i+1] != '1' {
			return errors.New("a tilde must be followed by 0 or 1")
		}
		rest = rest[i+2:]
	}
	// The library takes an empty token for the container itself.
	if strings.Contains(p+"/", "//") {
		return errors.New("members without a name are not supported")
	}
	return nil
}

func isContainer(v chunk.Value) bool {
	i := space(v, 0)
	return i < len(v) && (v[i] == '{' || v[i] == '[')
}

// isOdd reports whether op needs a look at the document. It has a token that is
// a good name of a member but, as an index, would be read by the library
// although the RFC forbids it (01, +1, -1); or it tests for null, which the
// library also finds where nothing is.
func isOdd(op *chunk.PatchOp) bool {
	return hasOddToken(op.Path) || op.From != nil && hasOddToken(*op.From) || testsNull(op)
}

func testsNull(op *chunk.PatchOp) bool {
	return op.Op == "test" && string(bytes.TrimSpace(*op.Value)) == "null"
}

func hasOddToken(pointer string) bool {
	for _, c := range []string{"/0", "/-", "/+"} {
		for rest := pointer; ; {
			i := strings.Index(rest, c)
			if i < 0 {
				break
			}
			rest = rest[i+len(c):]
			if c != "/0" || rest != "" && rest[0] != '/' {
				if c == "/-" && rest == "" {
					break // the place after the last element
				}
				return true
			}
		}
	}
	return false
}

// checkAgainst walks the document along the pointers of op and refuses an odd
// token where the document has an array, and a test for null of nothing.
func checkAgainst(state chunk.Value, op *chunk.PatchOp) error {
	if op.From != nil {
		if _, err := find(state, *op.From); err != nil {
			return fmt.Errorf("from: %w", err)
		}
	}
	v, err := find(state, op.Path)
	if err == nil && v == nil && testsNull(op) {
		err = errors.New("there is nothing to test")
	}
	return err
}

// find is the value that a pointer means, nil when there is none.
func find(v chunk.Value, pointer string) (chunk.Value, error) {
	for _, token := range strings.Split(pointer, "/")[1:] {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		switch {
		case !isContainer(v):
			return nil, nil
		case v[space(v, 0)] == '{':
			m, err := members(v)
			if err != nil {
				return nil, err
			}
			v = m[token]
		default:
			var err error
			if v, err = element(v, token); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// element is the element of an array that a token means, nil when there is none.
func element(v chunk.Value, token string) (chunk.Value, error) {
	if token == "-" {
		return nil, nil
	}
	n, err := strconv.ParseUint(token, 10, 31)
	if err != nil || strconv.FormatUint(n, 10) != token {
		return nil, fmt.Errorf("index %q: want a decimal number", clip(token))
	}
	list, err := elements(v)
	if err != nil || n >= uint64(len(list)) {
		return nil, err
	}
	return list[n], nil
}

// The library's strings are Unicode: it would make all lone surrogates the
// same. While it works, each is a private character that nobody else uses.
const (
	shieldFirst = 0x10F000 // stands for U+D800
	shieldLast  = 0x10F7FF // stands for U+DFFF
)

// shieldSurrogates replaces lone surrogates by private characters. When the
// patch or the state uses these too, the patch is refused.
func shieldSurrogates(state chunk.Value, ops []chunk.PatchOp) (bool, chunk.Value, []chunk.PatchOp, error) {
	var sh shield
	state = sh.json(state)
	shielded := make([]chunk.PatchOp, len(ops))
	for i, op := range ops {
		op.Path = sh.text(op.Path)
		if op.From != nil {
			from := sh.text(*op.From)
			op.From = &from
		}
		if op.Value != nil {
			v := chunk.Value(sh.json(*op.Value))
			op.Value = &v
		}
		shielded[i] = op
	}
	if !sh.lone {
		return false, state, ops, nil
	}
	if sh.private {
		return false, nil, nil, errors.New("lone surrogates beside characters from U+10F000 on")
	}
	return true, state, shielded, nil
}

type shield struct{ lone, private bool }

// json shields the strings of a JSON text, in which a lone surrogate is an
// escape.
func (sh *shield) json(v []byte) []byte {
	sh.private = sh.private || hasPrivate(string(v)) || hasPrivateEscape(v)
	if !bytes.Contains(v, []byte(`\u`)) {
		return v
	}
	var out []byte
	start := 0
	for i := 0; i+1 < len(v); {
		if v[i] != '\\' {
			i++
			continue
		}
		if v[i+1] != 'u' {
			i += 2
			continue
		}
		piece, n, _ := unescape(nil, v[i:])
		if n == 6 && len(piece) == 3 && piece[0] == 0xED && piece[1] >= 0xA0 {
			sh.lone = true
			out = append(out, v[start:i]...)
			out = utf8.AppendRune(out, shieldFirst+rune(piece[1]&0x1F)<<6+rune(piece[2]&0x3F))
			start = i + n
		}
		i += max(n, 2)
	}
	if start == 0 {
		return v
	}
	return append(out, v[start:]...)
}

// text shields a WTF-8 string.
func (sh *shield) text(s string) string {
	sh.private = sh.private || hasPrivate(s)
	if utf8.ValidString(s) {
		return s
	}
	var out []byte
	for i := 0; i < len(s); {
		if s[i] == 0xED && i+2 < len(s) && s[i+1] >= 0xA0 {
			sh.lone = true
			out = utf8.AppendRune(out, shieldFirst+rune(s[i+1]&0x1F)<<6+rune(s[i+2]&0x3F))
			i += 3
			continue
		}
		out = append(out, s[i])
		i++
	}
	return string(out)
}

func hasPrivate(s string) bool {
	for i := 0; ; {
		j := strings.IndexByte(s[i:], 0xF4)
		if j < 0 {
			return false
		}
		if r, _ := utf8.DecodeRuneInString(s[i+j:]); r >= shieldFirst && r <= shieldLast {
			return true
		}
		i += j + 1
	}
}

// unshield puts the escapes of lone surrogates back.
func unshield(v []byte) []byte {
	var out []byte
	for i := 0; i < len(v); {
		if v[i] == 0xF4 {
			if r, n := utf8.DecodeRune(v[i:]); r >= shieldFirst && r <= shieldLast {
				u := 0xD800 + r - shieldFirst
				out = append(out, '\\', 'u', hexDigits[u>>12], hexDigits[u>>8&15], hexDigits[u>>4&15], hexDigits[u&15])
				i += n
				continue
			}
		}
		out = append(out, v[i])
		i++
	}
	return out
}

// hasPrivateEscape reports whether v may write one of the private characters as
// a pair of escapes.
func hasPrivateEscape(v []byte) bool {
	if !bytes.Contains(v, []byte(`\u`)) {
		return false
	}
	lower := bytes.ToLower(v)
	return bytes.Contains(lower, []byte(`\udbfc`)) || bytes.Contains(lower, []byte(`\udbfd`))
}
