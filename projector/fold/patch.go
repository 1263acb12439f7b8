package fold

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// Limits of the custom state. A patch that exceeds one is rejected as a whole.
const (
	MaxState     = 1 << 20 // bytes of the result
	maxOps       = 1000    // operations of one patch
	maxGrowth    = MaxState
	maxPathDepth = 128 // tokens of one pointer
	maxDepth     = 512 // nesting of the result
	maxOddOps    = 32  // operations that require a check against the document
)

// patch changes the custom state, or leaves it unchanged and counts the rejected patch: a patch is applied as a whole or not at
// all.
func (s *Snapshot) patch(rec chunk.Record, b chunk.StatePatch) {
	next, err := ApplyPatch(s.State, b.Patches)
	if err != nil {
		s.Faults.RejectedPatches++
		s.fault(rec, err.Error())
		return
	}
	s.State = next
}

// ApplyPatch returns the custom state after the operations of a state_patch. nil is the state before the first patch. It returns an error, and no state, for
// operations that a snapshot rejects: those beyond the limits, and those that the library would apply differently from RFC 6902.
func ApplyPatch(state chunk.Value, ops []chunk.PatchOp) (chunk.Value, error) {
	if state == nil {
		state = chunk.Value(`{}`)
	}
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
		state = unescapeSurrogates(state)
	}
	if len(state) > MaxState {
		return nil, fmt.Errorf("the state would have %d bytes, want at most %d", len(state), MaxState)
	}
	if d := rawjson.Depth(state); d > maxDepth {
		return nil, fmt.Errorf("the state would nest %d deep, want at most %d", d, maxDepth)
	}
	return state, nil
}

// applyOps applies operations in order. Those with a token that is valid only for some documents are checked against the
// document first.
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

// applyLibrary passes operations to the library. The library panics for some inputs (a test that compares null elements); the
// operations are rejected then.
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
		// The library inspects the first byte of a value, so white space before it must be removed.
		var compact bytes.Buffer
		if json.Compact(&compact, orNull(*op.Value)) == nil {
			raw := json.RawMessage(compact.Bytes())
			o["value"] = &raw
		}
	}
	return o
}

func rawString(s string) *json.RawMessage {
	raw := json.RawMessage(rawjson.AppendQuoted(nil, s))
	return &raw
}

// checkOp rejects operations that are invalid for every document.
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
	// The library interprets an empty token as the container itself.
	if strings.Contains(p+"/", "//") {
		return errors.New("members without a name are not supported")
	}
	return nil
}

func isContainer(v chunk.Value) bool { return isObject(v) || rawjson.Kind(v) == '[' }

func isObject(v chunk.Value) bool { return rawjson.Kind(v) == '{' }

// isOdd reports whether op must be checked against the document: it has a token that is a valid member name but that the
// library would also accept as an index although the RFC forbids it (01, +1, -1), or it tests for null, which the library also
// finds where there is no value.
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
					break // the index after the last element
				}
				return true
			}
		}
	}
	return false
}

// checkAgainst follows the pointers of op in the document. It rejects an odd token where the document has an array, and a test
// for null where there is no value.
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

// find returns the value at a pointer, nil if there is none.
func find(v chunk.Value, pointer string) (chunk.Value, error) {
	for _, token := range strings.Split(pointer, "/")[1:] {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		switch {
		case !isContainer(v):
			return nil, nil
		case isObject(v):
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

// element returns the element of an array for a token, nil if there is none.
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
