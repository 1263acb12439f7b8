package codec

import (
	"bytes"
	"math"
	"strconv"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/tailrace/tailrace/internal/rawjson"
)

// fromMsgpack returns the JSON text of a msgpack body: members in their order, exact integers, floats in the shortest form that reads back as the same
// float64.
func fromMsgpack(data []byte) ([]byte, error) {
	if err := checkMsgpack(data); err != nil {
		return nil, err
	}
	dec := msgpack.GetDecoder()
	defer msgpack.PutDecoder(dec)
	dec.Reset(bytes.NewReader(data))
	out, err := appendUnpacked(make([]byte, 0, len(data)+len(data)/2), dec)
	if err != nil {
		// The guard accepted it and the library did not; the fuzz test checks that they agree.
		return nil, newEnvelopeError("data", "msgpack", err.Error())
	}
	return out, nil
}

func appendUnpacked(dst []byte, dec *msgpack.Decoder) ([]byte, error) {
	code, err := dec.PeekCode()
	if err != nil {
		return dst, err
	}
	switch {
	case msgpcode.IsFixedMap(code), code == msgpcode.Map16, code == msgpcode.Map32:
		return appendUnpackedMap(dst, dec)
	case msgpcode.IsFixedArray(code), code == msgpcode.Array16, code == msgpcode.Array32:
		return appendUnpackedArray(dst, dec)
	case msgpcode.IsString(code):
		return appendUnpackedString(dst, dec)
	case code == msgpcode.Nil:
		return append(dst, "null"...), dec.DecodeNil()
	case code == msgpcode.True, code == msgpcode.False:
		b, err := dec.DecodeBool()
		return strconv.AppendBool(dst, b), err
	case code == msgpcode.Float, code == msgpcode.Double:
		f, err := dec.DecodeFloat64()
		return appendFloat(dst, f), err
	case code == msgpcode.Uint64:
		n, err := dec.DecodeUint64()
		return strconv.AppendUint(dst, n, 10), err
	default:
		n, err := dec.DecodeInt64()
		return strconv.AppendInt(dst, n, 10), err
	}
}

func appendUnpackedMap(dst []byte, dec *msgpack.Decoder) ([]byte, error) {
	n, err := dec.DecodeMapLen()
	if err != nil {
		return dst, err
	}
	dst = append(dst, '{')
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendUnpackedString(dst, dec); err != nil {
			return dst, err
		}
		dst = append(dst, ':')
		if dst, err = appendUnpacked(dst, dec); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

func appendUnpackedArray(dst []byte, dec *msgpack.Decoder) ([]byte, error) {
	n, err := dec.DecodeArrayLen()
	if err != nil {
		return dst, err
	}
	dst = append(dst, '[')
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendUnpacked(dst, dec); err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}

func appendUnpackedString(dst []byte, dec *msgpack.Decoder) ([]byte, error) {
	s, err := dec.DecodeString()
	if err != nil {
		return dst, err
	}
	dst, _ = rawjson.AppendQuotedChunk(dst, s) // the guard has checked that s is UTF-8
	return dst, nil
}

// appendFloat writes f as ECMAScript does: the shortest digits that read back as f, with an exponent only below 1e-6 and from 1e21 on. A whole number has no
// fraction, so that a timestamp that a msgpack writer sent as a float becomes an integer again.
func appendFloat(dst []byte, f float64) []byte {
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, format, -1, 64)
	if n := len(dst); format == 'e' && n-start >= 4 && dst[n-4] == 'e' && dst[n-3] == '-' && dst[n-2] == '0' {
		dst[n-2] = dst[n-1] // e-09 to e-9
		dst = dst[:n-1]
	}
	return dst
}
