package workers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/wI2L/jsondiff"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// emptyState is the initial custom state.
const emptyState = `{}`

// diff returns the patch from one custom state to another. The patch is applied as a check; if the result
// differs, the whole state is replaced.
func diff(from, to chunk.Value) ([]chunk.PatchOp, error) {
	if len(from) == 0 {
		from = chunk.Value(emptyState)
	}
	if t := bytes.TrimSpace(to); len(t) == 0 || t[0] != '{' && t[0] != '[' {
		return nil, fmt.Errorf("state %.40s: %w: want an object or an array", to, chunk.ErrInvalid)
	}
	ops, err := diffOps(from, to)
	if err == nil && patchYields(from, to, ops) {
		return ops, nil
	}
	return []chunk.PatchOp{{Op: "replace", Path: "", Value: &to}}, nil
}

// diffOps compares exactly: numbers by their text.
func diffOps(from, to chunk.Value) ([]chunk.PatchOp, error) {
	if hasEscapedSurrogate(from) || hasEscapedSurrogate(to) {
		return nil, errEscaped
	}
	source, err := decodeExact(from)
	if err != nil {
		return nil, err
	}
	target, err := decodeExact(to)
	if err != nil {
		return nil, err
	}
	patch, err := jsondiff.CompareWithoutMarshal(source, target)
	if err != nil {
		return nil, err
	}
	ops := make([]chunk.PatchOp, 0, len(patch))
	for _, o := range patch {
		op := chunk.PatchOp{Op: o.Type, Path: o.Path}
		switch o.Type {
		case jsondiff.OperationMove, jsondiff.OperationCopy:
			op.From = &o.From
		case jsondiff.OperationRemove:
		default:
			v, err := chunk.ValueOf(o.Value)
			if err != nil {
				return nil, err
			}
			op.Value = &v
		}
		ops = append(ops, op)
	}
	return ops, nil
}

// errEscaped: encoding/json does not preserve unpaired surrogates.
var errEscaped = errors.New("escaped surrogates")

func hasEscapedSurrogate(v chunk.Value) bool {
	return bytes.Contains(v, []byte(`\ud`)) || bytes.Contains(v, []byte(`\uD`))
}

func decodeExact(v chunk.Value) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(v))
	dec.UseNumber()
	var out any
	if err := dec.Decode(&out); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("more than one value")
	}
	return out, nil
}

// patchYields reports whether the operations turn from into to.
func patchYields(from, to chunk.Value, ops []chunk.PatchOp) bool {
	got, err := applyPatch(from, ops)
	return err == nil && canonical(got) == canonical(to)
}

// applyPatch applies the operations as the fold does, if a record can hold them.
func applyPatch(from chunk.Value, ops []chunk.PatchOp) (chunk.Value, error) {
	if err := (chunk.Chunk{AgentID: "a", Body: chunk.StatePatch{Patches: ops}}).Validate(); err != nil {
		return nil, err
	}
	return fold.ApplyPatch(from, ops)
}

// canonical returns a JSON value with sorted members; strings and numbers keep their text.
func canonical(v chunk.Value) string {
	x, err := decodeExact(v)
	if err != nil {
		return "unreadable: " + string(v)
	}
	text, err := json.Marshal(x)
	if err != nil {
		return "unreadable: " + string(v)
	}
	return string(text)
}
