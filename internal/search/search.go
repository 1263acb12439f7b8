// Package search finds a text in others, in upper or lower case and in any Unicode normal form.
package search

import (
	"bytes"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/tailrace/tailrace/internal/rawjson"
)

// Text is a text to search for, as For returns it.
type Text string

// For returns the Text of a search.
func For(text string) Text { return Text(normal(text)) }

// normal returns the form in which texts are compared. Capitals come first: σ and ς have the same one.
func normal(text string) string { return norm.NFC.String(strings.ToLower(strings.ToUpper(text))) }

// In reports whether text contains t.
func (t Text) In(text string) bool { return strings.Contains(normal(text), string(t)) }

// searched are the members of the parts of a message that contain its text. The others are ids, states and addresses.
var searched = map[string]bool{
	"text": true, "toolName": true, "rawInput": true, "input": true, "output": true, "errorText": true, "title": true, "filename": true, "data": true,
}

// InMessage reports whether a message of the AI SDK, which is valid JSON, contains t: in a text, or in the name, the input, the output or the error of a call.
func (t Text) InMessage(message []byte) bool {
	for part := range rawjson.Elements(rawjson.Get(message, "parts")) {
		for name, value := range rawjson.Members(part) {
			if searched[string(name.Bytes())] && t.inJSON(value) {
				return true
			}
			if tool, is := bytes.CutPrefix(rawjson.Text(value).Bytes(), []byte("tool-")); is && name.Is("type") && t.In(string(tool)) {
				return true
			}
		}
	}
	return false
}

// inJSON reports whether a string, a name, a number or another word of a JSON value contains t.
func (t Text) inJSON(value []byte) bool {
	const between = "{}[]:, \t\r\n"
	for value = bytes.TrimLeft(value, between); len(value) > 0; value = bytes.TrimLeft(value, between) {
		var item []byte
		if value[0] == '"' {
			end := max(1, rawjson.StringEnd(value, 0))
			item, value = rawjson.Text(value[:end]).Bytes(), value[end:]
		} else {
			item, value = value, nil
			if end := bytes.IndexAny(item, between); end > 0 {
				item, value = item[:end], item[end:]
			}
		}
		if t.In(string(item)) {
			return true
		}
	}
	return false
}
