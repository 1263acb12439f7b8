package main

import (
	"fmt"

	"github.com/tailrace/tailrace/codec"
)

// format is codec.Format as people write it.
type format codec.Format

// UnmarshalText reads "json" or "msgpack".
func (f *format) UnmarshalText(text []byte) error {
	switch string(text) {
	case "json":
		*f = format(codec.FormatJSON)
	case "msgpack":
		*f = format(codec.FormatMsgpack)
	default:
		return fmt.Errorf("format is %q, want json or msgpack", text)
	}
	return nil
}

// String is the name of the format.
func (f format) String() string {
	if codec.Format(f) == codec.FormatMsgpack {
		return "msgpack"
	}
	return "json"
}
