package codec

import (
	"fmt"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// Format is the encoding of the body of a message. The zero Format is JSON.
type Format int

// The formats.
const (
	FormatJSON    Format = iota // application/json
	FormatMsgpack               // application/msgpack, if the value allows it
)

// String returns the media type of f.
func (f Format) String() string {
	switch f {
	case FormatJSON:
		return mediaJSON
	case FormatMsgpack:
		return mediaMsgpack
	}
	return fmt.Sprintf("Format(%d)", int(f))
}

// Encoded is the header and data of a NATS message. Header has capacity for one more entry and can be assigned to a nats.Header.
type Encoded struct {
	Header map[string][]string
	Data   []byte
}

// Envelope is the place of a record in the log, and how its body is stored.
type Envelope struct {
	Session chunk.Session
	Epoch   chunk.Epoch
	Ordinal chunk.Ordinal
	Format  Format // of the body
}

// Encode returns the message of c in the log of e.Session.
//
// With FormatMsgpack the body is the msgpack of the same JSON value. A value that msgpack would change is written as JSON instead: numbers whose text
// msgpack does not preserve (integers beyond 64 bits, 1e400, 1.0, more digits than a float64 holds), lone surrogates, and more than 20,000 values or 32
// levels. Readers use the content type to distinguish them.
//
// The error is that of chunk.Chunk.AppendJSON: a *chunk.FieldError.
func Encode(e Envelope, c chunk.Chunk) (Encoded, error) {
	if e.Format != FormatJSON && e.Format != FormatMsgpack {
		return Encoded{}, fmt.Errorf("format %d: want FormatJSON or FormatMsgpack", int(e.Format))
	}
	body, err := c.AppendJSON(nil)
	if err != nil {
		return Encoded{}, err
	}
	m := EncodeJSON(e, Header{Type: c.Type(), Timestamp: c.Timestamp}, body)
	if e.Format == FormatJSON {
		return m, nil
	}
	if packed, ok := toMsgpack(body); ok {
		m.Header[headerDataType][0] = mediaMsgpack
		m.Data = packed
	}
	return m, nil
}

// Header is what the header of a message repeats of its body.
type Header struct {
	Type      chunk.Type
	Timestamp int64 // in Unix milliseconds; ce-time is left out if it is invalid
}

// EncodeJSON is Encode for a body that is JSON already, and stays JSON whatever e.Format is: the hot path of the writer. It does not read body, which the
// Encoded refers to; body must be what AppendJSON writes for a chunk with this header.
func EncodeJSON(e Envelope, h Header, body []byte) Encoded {
	// All values that are not constant share one string, and all one-element slices one array: 4 allocations instead of 13.
	text := make([]byte, 0, 128)
	text = appendEventID(text, e.Epoch, e.Ordinal)
	idEnd := len(text)
	text = appendSource(text, e.Session)
	sourceEnd := len(text)
	text = appendTime(text, h.Timestamp)
	all := string(text)

	values := &[6]string{"1.0", all[:idEnd], all[idEnd:sourceEnd], headerValue(string(h.Type)), mediaJSON, all[sourceEnd:]}
	// Capacity for one more entry: the writer adds the expected sequence.
	header := make(map[string][]string, len(values)+1)
	header[headerSpecVersion] = values[0:1:1]
	header[headerID] = values[1:2:2]
	header[headerSource] = values[2:3:3]
	header[headerType] = values[3:4:4]
	header[headerDataType] = values[4:5:5]
	if values[5] != "" {
		header[headerTime] = values[5:6:6]
	}
	return Encoded{Header: header, Data: body}
}

func appendTime(dst []byte, milli int64) []byte {
	if milli < 0 || milli > chunk.MaxTimestamp {
		return dst // RFC 3339 cannot represent it, and CloudEvents does not require it
	}
	return time.UnixMilli(milli).UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z")
}
