package workers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/wI2L/jsondiff"

	"github.com/tailrace/tailrace/chunk"
)

// emptyState is the custom state before anybody set it.
const emptyState = `{}`

// diff is the patch that turns one custom state into another. It is tried out
// before it is used; what cannot be said by small operations is replaced whole.
func diff(from, to chunk.Value) ([]chunk.PatchOp, error) {
	if len(from) == 0 {
		from = chunk.Value(emptyState)
	}
	if t := bytes.TrimSpace(to); len(t) == 0 || t[0] != '{' && t[0] != '[' {
		return nil, fmt.Errorf("the state is %.40s: %w, want an object or an array", to, chunk.ErrInvalid)
	}
	ops, err := smallOps(from, to)
	if err == nil && fits(ops) && proven(from, to, ops) {
		return ops, nil
	}
	return []chunk.PatchOp{{Op: "replace", Path: "", Value: &to}}, nil
}

// smallOps compares exactly: numbers as the text they are written in.
func smallOps(from, to chunk.Value) ([]chunk.PatchOp, error) {
	if escaped(from) || escaped(to) {
		return nil, errEscaped
	}
	source, err := exactly(from)
	if err != nil {
		return nil, err
	}
	target, err := exactly(to)
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

// errEscaped: encoding/json would not give back a text with half a pair of
// surrogates.
var errEscaped = errors.New("surrogates that are written as escapes")

func escaped(v chunk.Value) bool {
	return bytes.Contains(v, []byte(`\ud`)) || bytes.Contains(v, []byte(`\uD`))
}

func exactly(v chunk.Value) (any, error) {
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

// fits reports whether one state_patch can hold the operations, and the fold
// would take them.
func fits(ops []chunk.PatchOp) bool {
	if len(ops) > chunk.MaxPatchOps {
		return false
	}
	for _, op := range ops {
		// A member without a name is one that the fold refuses.
		if strings.Count(op.Path, "/") > chunk.MaxPointerSegments || strings.Contains(op.Path+"/", "//") {
			return false
		}
	}
	return true
}

// proven applies the operations as the fold does, and compares.
func proven(from, to chunk.Value, ops []chunk.PatchOp) (ok bool) {
	defer func() {
		if recover() != nil { // the library does on some inputs
			ok = false
		}
	}()
	text, err := chunk.Chunk{AgentID: "a", Body: chunk.StatePatch{Patches: ops}}.AppendJSON(nil)
	if err != nil {
		return false
	}
	var body struct {
		Patches jsonpatch.Patch `json:"patches"`
	}
	if err := json.Unmarshal(text, &body); err != nil {
		return false
	}
	got, err := body.Patches.Apply(from)
	if err != nil {
		return false
	}
	return canonical(got) == canonical(to)
}

// canonical is a JSON value with its members in order and its strings and
// numbers as they stand.
func canonical(v chunk.Value) string {
	x, err := exactly(v)
	if err != nil {
		return "unreadable: " + string(v)
	}
	text, err := json.Marshal(x)
	if err != nil {
		return "unreadable: " + string(v)
	}
	return string(text)
}
