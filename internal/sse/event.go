package sse

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ErrUnsafe reports an id, an event name or a comment with a line break. Nothing was appended.
var ErrUnsafe = errors.New("field contains CR, LF or NUL")

// Event is one server-sent event. The zero Event has no lines and is not sent; empty members are omitted.
type Event struct {
	ID    string        // the client's next Last-Event-ID
	Name  string        // "event:", empty for the default message handler
	Retry time.Duration // reconnect delay of the client, in whole milliseconds
	Data  []byte        // one "data:" line for each line in it; nil is no data
}

// Append appends the event with its closing blank line. The error is ErrUnsafe with the name of the field.
func (e Event) Append(dst []byte) ([]byte, error) {
	if err := safe("id", e.ID); err != nil {
		return dst, err
	}
	if err := safe("event", e.Name); err != nil {
		return dst, err
	}
	before := len(dst)
	if e.ID != "" {
		dst = appendLine(dst, "id: ", e.ID)
	}
	if e.Name != "" {
		dst = appendLine(dst, "event: ", e.Name)
	}
	if e.Retry > 0 {
		dst = append(dst, "retry: "...)
		dst = append(strconv.AppendInt(dst, e.Retry.Milliseconds(), 10), '\n')
	}
	if e.Data != nil {
		dst = appendData(dst, e.Data)
	}
	if len(dst) == before {
		return dst, nil
	}
	return append(dst, '\n'), nil
}

// AppendID appends an event with only an id. A client does not dispatch it but stores the id, so that it does not request again what a filter has hidden from
// it. The error is ErrUnsafe.
func AppendID(dst []byte, id string) ([]byte, error) {
	if err := safe("id", id); err != nil {
		return dst, err
	}
	return append(appendLine(dst, "id: ", id), '\n'), nil
}

// AppendComment appends a comment, which keeps the connection alive and which clients ignore.
func AppendComment(dst []byte, text string) ([]byte, error) {
	if err := safe("comment", text); err != nil {
		return dst, err
	}
	dst = appendLine(dst, ": ", text)
	return append(dst, '\n'), nil
}

func safe(field, s string) error {
	if strings.ContainsAny(s, "\r\n\x00") {
		return fmt.Errorf("%s: %w", field, ErrUnsafe)
	}
	return nil
}

func appendLine(dst []byte, field, value string) []byte {
	dst = append(dst, field...)
	dst = append(dst, value...)
	return append(dst, '\n')
}

// appendData ends a line at CR, LF and CRLF, as clients do: a lone CR in the data of one event would otherwise start another field.
func appendData(dst, data []byte) []byte {
	for {
		i := bytes.IndexAny(data, "\r\n")
		line, more := data, i >= 0
		if more {
			line = data[:i]
		}
		dst = append(dst, "data: "...)
		dst = append(dst, line...)
		dst = append(dst, '\n')
		if !more {
			return dst
		}
		if data[i] == '\r' && i+1 < len(data) && data[i+1] == '\n' {
			i++
		}
		data = data[i+1:]
	}
}
