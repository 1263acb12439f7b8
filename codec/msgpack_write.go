package codec

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/tailrace/tailrace/chunk"
)

// toMsgpack returns the msgpack of a JSON object. It reports false if msgpack would change the value, or if the guard of a reader would reject it.
func toMsgpack(text []byte) ([]byte, bool) {
	counts, ok := countElements(text)
	if !ok {
		return nil, false
	}
	out := bytes.NewBuffer(make([]byte, 0, len(text)))
	enc := msgpack.GetEncoder()
	defer msgpack.PutEncoder(enc)
	enc.Reset(out)
	if !pack(enc, jsontext.NewDecoder(bytes.NewBuffer(text)), counts) {
		return nil, false
	}
	return out.Bytes(), true
}

// countElements returns the number of elements of each object and array, in the order of their starts, because msgpack has the number in front. The decoder
// rejects text that msgpack cannot represent or readers reject: lone surrogates, duplicate names.
func countElements(text []byte) ([]int, bool) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(text))
	var counts, open []int
	values := 0
	for {
		switch dec.PeekKind() {
		case jsontext.KindBeginObject, jsontext.KindBeginArray:
			open = append(open, len(counts))
			counts = append(counts, 0)
			values++
		case jsontext.KindEndObject, jsontext.KindEndArray:
			kind, n := dec.StackIndex(dec.StackDepth())
			if kind == jsontext.KindBeginObject {
				n /= 2 // names count, too
			}
			counts[open[len(open)-1]] = int(n)
			open = open[:len(open)-1]
		default:
			if in, n := dec.StackIndex(dec.StackDepth()); in != jsontext.KindBeginObject || n%2 == 1 {
				values++ // not a name
			}
		}
		if _, err := dec.ReadToken(); err != nil {
			return nil, false
		}
		if len(open) > chunk.MaxDepth || values > chunk.MaxValues {
			return nil, false
		}
		if len(open) == 0 {
			return counts, len(counts) > 0
		}
	}
}

// pack writes one token after the other; both forms have them in the same order.
func pack(enc *msgpack.Encoder, dec *jsontext.Decoder, counts []int) bool {
	for {
		tok, err := dec.ReadToken()
		if err != nil {
			return false
		}
		ok := true
		switch tok.Kind() {
		case jsontext.KindBeginObject:
			err = enc.EncodeMapLen(counts[0])
			counts = counts[1:]
		case jsontext.KindBeginArray:
			err = enc.EncodeArrayLen(counts[0])
			counts = counts[1:]
		case jsontext.KindString:
			err = enc.EncodeString(tok.String())
		case jsontext.KindNumber:
			ok = packNumber(enc, tok.String())
		case jsontext.KindTrue, jsontext.KindFalse:
			err = enc.EncodeBool(tok.Bool())
		case jsontext.KindNull:
			err = enc.EncodeNil()
		}
		if err != nil || !ok {
			return false
		}
		if dec.StackDepth() == 0 {
			return true
		}
	}
}

// packNumber writes a number if exactly its text can be restored.
func packNumber(enc *msgpack.Encoder, text string) bool {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && text != "-0" {
		return enc.EncodeInt(n) == nil
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil && text != "-0" {
		return enc.EncodeUint(n) == nil
	}
	f, err := strconv.ParseFloat(text, 64)
	var buf [32]byte
	if err != nil || string(appendFloat(buf[:0], f)) != text {
		return false
	}
	return enc.EncodeFloat64(f) == nil
}
