package fold

import (
	"encoding/json"
	"errors"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
)

var errRefPatch = errors.New("rejected")

// refPatch implements RFC 6902 literally, for plain Go values.
func refPatch(state any, ops []chunk.PatchOp) (any, error) {
	for _, op := range ops {
		var err error
		if state, err = refOp(state, op); err != nil {
			return nil, err
		}
	}
	return state, nil
}

func refOp(state any, op chunk.PatchOp) (any, error) {
	value := func() (any, error) {
		if op.Value == nil {
			return nil, errRefPatch
		}
		return refParse(*op.Value), nil
	}
	switch op.Op {
	case "add", "replace", "test":
		v, err := value()
		if err != nil {
			return nil, err
		}
		if op.Op == "add" {
			return refSet(state, op.Path, v, true)
		}
		old, err := refGet(state, op.Path)
		if err != nil {
			return nil, err
		}
		if op.Op == "replace" {
			return refSet(state, op.Path, v, false)
		}
		if !refEqual(old, v) {
			return nil, errRefPatch
		}
		return state, nil
	case "remove":
		return refRemove(state, op.Path)
	case "move", "copy":
		if op.From == nil {
			return nil, errRefPatch
		}
		v, err := refGet(state, *op.From)
		if err != nil {
			return nil, err
		}
		v = refCopy(v)
		if op.Op == "move" {
			if strings.HasPrefix(op.Path, *op.From+"/") {
				return nil, errRefPatch
			}
			if state, err = refRemove(state, *op.From); err != nil {
				return nil, err
			}
		}
		return refSet(state, op.Path, v, true)
	}
	return nil, errRefPatch
}

func refParse(v chunk.Value) any {
	d := json.NewDecoder(strings.NewReader(string(v)))
	d.UseNumber()
	var out any
	if err := d.Decode(&out); err != nil {
		panic(err)
	}
	return out
}

func refTokens(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	if path[0] != '/' {
		return nil, errRefPatch
	}
	tokens := strings.Split(path[1:], "/")
	for i, tok := range tokens {
		if strings.Contains(strings.ReplaceAll(strings.ReplaceAll(tok, "~0", ""), "~1", ""), "~") {
			return nil, errRefPatch
		}
		tokens[i] = strings.ReplaceAll(strings.ReplaceAll(tok, "~1", "/"), "~0", "~")
	}
	return tokens, nil
}

func refIndex(tok string, maxIndex int) (int, error) {
	n, err := strconv.Atoi(tok)
	if err != nil || strconv.Itoa(n) != tok || n < 0 || n > maxIndex {
		return 0, errRefPatch
	}
	return n, nil
}

func refGet(state any, path string) (any, error) {
	tokens, err := refTokens(path)
	for _, tok := range tokens {
		switch v := state.(type) {
		case map[string]any:
			child, ok := v[tok]
			if !ok {
				return nil, errRefPatch
			}
			state = child
		case []any:
			i, err := refIndex(tok, len(v)-1)
			if err != nil {
				return nil, err
			}
			state = v[i]
		default:
			return nil, errRefPatch
		}
	}
	return state, err
}

// refChange copies the path to a container and replaces the container by the result of change.
func refChange(state any, tokens []string, change func(container any, tok string) (any, error)) (any, error) {
	if len(tokens) == 1 {
		return change(state, tokens[0])
	}
	child, err := refGet(state, "/"+strings.ReplaceAll(strings.ReplaceAll(tokens[0], "~", "~0"), "/", "~1"))
	if err != nil {
		return nil, err
	}
	if child, err = refChange(child, tokens[1:], change); err != nil {
		return nil, err
	}
	switch v := state.(type) {
	case map[string]any:
		v = maps.Clone(v)
		v[tokens[0]] = child
		return v, nil
	case []any:
		v = slices.Clone(v)
		i, _ := strconv.Atoi(tokens[0])
		v[i] = child
		return v, nil
	}
	return nil, errRefPatch
}

func refSet(state any, path string, value any, insert bool) (any, error) {
	tokens, err := refTokens(path)
	if err != nil {
		return nil, err
	}
	if len(tokens) == 0 {
		return value, nil
	}
	return refChange(state, tokens, func(container any, tok string) (any, error) {
		switch v := container.(type) {
		case map[string]any:
			v = maps.Clone(v)
			v[tok] = value
			return v, nil
		case []any:
			v = slices.Clone(v)
			if insert && tok == "-" {
				return append(v, value), nil
			}
			i, err := refIndex(tok, len(v))
			if err != nil || !insert && i == len(v) {
				return nil, errRefPatch
			}
			if insert {
				return slices.Insert(v, i, value), nil
			}
			v[i] = value
			return v, nil
		}
		return nil, errRefPatch
	})
}

func refRemove(state any, path string) (any, error) {
	tokens, err := refTokens(path)
	if err != nil || len(tokens) == 0 {
		return nil, errRefPatch
	}
	return refChange(state, tokens, func(container any, tok string) (any, error) {
		switch v := container.(type) {
		case map[string]any:
			if _, ok := v[tok]; !ok {
				return nil, errRefPatch
			}
			v = maps.Clone(v)
			delete(v, tok)
			return v, nil
		case []any:
			i, err := refIndex(tok, len(v)-1)
			if err != nil {
				return nil, err
			}
			return slices.Delete(slices.Clone(v), i, i+1), nil
		}
		return nil, errRefPatch
	})
}

func refCopy(v any) any { return v } // values never change in place

func refEqual(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		n, ok := b.(json.Number)
		x, okX := new(big.Rat).SetString(string(a))
		y, okY := new(big.Rat).SetString(string(n))
		return ok && okX && okY && x.Cmp(y) == 0
	case map[string]any:
		m, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, m, refEqual)
	case []any:
		l, ok := b.([]any)
		return ok && slices.EqualFunc(a, l, refEqual)
	}
	return a == b
}

// TestPatchAgreesWithTheRFC checks that an accepted patch has the result of the RFC. A patch that the library would apply
// incorrectly is rejected.
func TestPatchAgreesWithTheRFC(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.Custom(func(t *rapid.T) chunk.Value {
			return chunk.Value(rapid.SampledFrom([]string{
				`1`, `1.0`, `"a"`, `null`, `true`, ` { "x" : [ 1 , null ] } `, `{"a":{"b":[]}}`, `[]`, `{}`, "\r[1,2]", `[null]`,
				`{"~":1,"/":2,"01":3,"-1":4,"-":5,"0":6}`, `"<&>\u2028"`, `9007199254740993`,
			}).Draw(t, "value"))
		})
		token := rapid.SampledFrom([]string{"a", "b", "x", "0", "1", "01", "-", "-1", "+1", "~0", "~1", "~2", "", "2", "4294967296", "00"})
		pointer := rapid.Custom(func(t *rapid.T) string {
			p := ""
			for range rapid.IntRange(0, 3).Draw(t, "tokens") {
				p += "/" + token.Draw(t, "token")
			}
			if rapid.IntRange(0, 30).Draw(t, "bare") == 0 {
				p = strings.TrimPrefix(p, "/")
			}
			return p
		})
		state := chunk.Value(rapid.SampledFrom([]string{`{}`, `{"a":[1,{"x":null},[]],"b":{"x":1,"01":2}}`, `[{"a":1},2]`, `{"x":{"a":{"b":[1,2,3]}}}`}).Draw(t, "state"))
		var ops []chunk.PatchOp
		for range rapid.IntRange(1, 6).Draw(t, "ops") {
			op := chunk.PatchOp{Op: rapid.SampledFrom([]string{"add", "add", "add", "remove", "replace", "move", "copy", "test", "spell"}).Draw(t, "op"), Path: pointer.Draw(t, "path")}
			if rapid.IntRange(0, 9).Draw(t, "hasValue") > 0 {
				v := value.Draw(t, "v")
				op.Value = &v
			}
			if rapid.IntRange(0, 9).Draw(t, "hasFrom") > 0 {
				from := pointer.Draw(t, "from")
				op.From = &from
			}
			ops = append(ops, op)
		}
		before := string(state)
		got, err := ApplyPatch(state, ops)
		if string(state) != before {
			t.Fatalf("the state was changed in place")
		}
		if err != nil {
			return
		}
		want, err := refPatch(refParse(state), ops)
		if err != nil {
			t.Fatalf("accepted %s, which the RFC refuses", got)
		}
		if !refEqual(refParse(got), want) {
			t.Fatalf("got %s, want %v", got, want)
		}
	})
}
