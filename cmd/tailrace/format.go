package main

import (
	"errors"

	"github.com/tailrace/tailrace/codec"
)

// format is codec.Format as a setting.
type format codec.Format

// UnmarshalText parses json or msgpack.
func (f *format) UnmarshalText(text []byte) error {
	switch string(text) {
	case "json":
		*f = format(codec.FormatJSON)
	case "msgpack":
		*f = format(codec.FormatMsgpack)
	default:
		return errors.New("want json or msgpack")
	}
	return nil
}
